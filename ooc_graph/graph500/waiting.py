"""Answers of several kernels that wait for one pass over the edges, which is made once for all.

The edges of a Kronecker graph are made again for each pass. If memory has room for the answers of
all kernels at once, they are therefore validated together after all searches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.graph500.run import Run, Searched
from ooc_graph.runtime.process import thread_count
from ooc_graph.runtime.validation import Together, check_edges
from ooc_graph.validate import Verdict


@dataclass
class Waiting:
    """Validators that have taken in all answers of a kernel, and verdicts of those that waited.

    Verdicts come with the seconds of the pass for each answer.
    """

    validators: dict[str, Any] = field(default_factory=dict)
    validated: dict[str, tuple[list[Verdict], float]] = field(default_factory=dict)

    def validate(self, run: Run, source: Kronecker) -> None:
        """Show those that wait the edges, in one pass; their memory is free then."""
        if not self.validators:
            return
        kernels, validators = list(self.validators), list(self.validators.values())
        counts = [one.taken for one in validators]
        self.validators.clear()

        def show() -> list[Verdict]:
            with run.progress.stage("validating", source.edges, "edges") as bar:
                return check_edges(Together(validators), source, thread_count(), bar.advance)

        verdicts = iter(run.timed("validation", show))
        each = run.stages[-1].duration_s / sum(counts)
        for kernel, count in zip(kernels, counts, strict=True):
            self.validated[kernel] = [next(verdicts) for _ in range(count)], each

    def with_verdicts(self, searched: Mapping[str, list[Searched]]) -> dict[str, list[Searched]]:
        """What was searched, by kernel; a share of the pass is added to each answer's time."""
        found = dict(searched)
        for kernel, (verdicts, each) in self.validated.items():
            found[kernel] = [
                replace(one, verdict=verdict, validate_s=one.validate_s + each, later_s=each)
                for one, verdict in zip(found[kernel], verdicts, strict=True)
            ]
        return found
