"""What a report page is made from, and its JSON form.

All times named ``start_s``, ``stop_s`` and ``MemorySample.time_s`` are seconds since the start
of the run, on one clock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ooc_graph.layout.whole_file import whole_file
from ooc_graph.types import AnyArray

Scalar = str | int | float | bool | None
ValidationStatus = Literal["passed", "failed", "skipped"]

DATA_VERSION = 1


@dataclass(frozen=True)
class LevelRecord:
    """One level (BFS) or phase (SSSP) of a search.

    A phase has no one frontier: then ``vertices`` is None. ``arcs`` were examined. The
    ``direction`` is "push" or "pull" of a level, or the name of the phase, empty if neither is
    known.
    """

    vertices: int | None
    arcs: int
    direction: str = ""


@dataclass(frozen=True)
class SearchRecord:
    """One timed search.

    Parameters
    ----------
    time_s
        Wall time of the search alone.
    edges
        Numerator of TEPS, or None if it was not counted.
    reached
        Vertices reached, the root included.
    validate_s
        Wall time of validation, or None if it was skipped.
    read_bytes, fetched_rows
        Bytes read of the store, and rows they were read for; None if all arcs were in memory.
    reading_s, waited_s
        Seconds in which something was read, and in which the search stood still for it; None as
        before, and if not measured.
    """

    kernel: str
    root: int
    time_s: float
    edges: int | None = None
    reached: int | None = None
    validate_s: float | None = None
    levels: tuple[LevelRecord, ...] = ()
    read_bytes: int | None = None
    fetched_rows: int | None = None
    reading_s: float | None = None
    waited_s: float | None = None

    @property
    def teps(self) -> float | None:
        """Traversed edges per second, or None if edges or time are not known."""
        return self.edges / self.time_s if self.edges and self.time_s > 0 else None


@dataclass(frozen=True)
class Stage:
    """A named span of the run, in seconds since its start."""

    name: str
    start_s: float
    stop_s: float

    @property
    def duration_s(self) -> float:
        """Seconds between start and stop."""
        return self.stop_s - self.start_s


@dataclass(frozen=True)
class MemorySample:
    """Memory of all processes together at one time since the start of the run."""

    time_s: float
    bytes: int


@dataclass(frozen=True)
class DegreeHistogram:
    """Number of vertices (``count``) of each ``degree``, both of the same length."""

    degree: tuple[int, ...]
    count: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.degree) != len(self.count):
            raise ValueError(f"{len(self.degree)} degrees for {len(self.count)} counts")

    @classmethod
    def of(cls, degree: AnyArray, count: AnyArray) -> DegreeHistogram:
        """Take integer arrays (n,) in host memory."""
        return cls(tuple(map(int, degree)), tuple(map(int, count)))


@dataclass(frozen=True)
class Validation:
    """Outcome of validating the answers; ``detail`` names the broken rule if one was broken."""

    status: ValidationStatus
    detail: str = ""


@dataclass(frozen=True)
class EnergyRecord:
    """Energy of repeated searches of one kernel, or why there is none.

    Parameters
    ----------
    seconds
        Wall time of all ``searches`` that ran meanwhile, pauses between them included.
    joules
        By what was measured (its name and counter); empty if nothing was.
    watts
        Average power of all that was measured, or None.
    mteps_per_watt
        Harmonic mean TEPS / 10^6 / watts, or None if energy was not measured for long enough.
    reason
        What is missing, and why; empty if nothing is.
    """

    kernel: str
    searches: int
    seconds: float
    joules: Mapping[str, float] = field(default_factory=dict)
    watts: float | None = None
    mteps_per_watt: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class ReportData:
    """Everything on a report page; each part may be absent and its section then says so.

    Parameters
    ----------
    date
        UTC date of the run, as text (the page has no other date).
    command
        Command line that makes the run again.
    parameters, graph, machine, packages
        Tables of name and value, in the order to show.
    graph_arcs
        Arcs of the graph, for shares; None shows counts instead.
    searches
        All timed searches, in order, of all kernels.
    stages, memory
        Spans and memory samples on one clock.
    memory_limit_bytes, memory_baseline_bytes
        Limit on the memory above the baseline, and the idle processes' memory.
    degree_histogram
        Of the undirected (or out + in) degrees.
    output_block
        Graph500's block, as printed.
    energy
        Of repeated searches, a kernel each; empty if nobody asked for it.
    tiers
        By kernel, names and values: what was in memory, and what was read of the store if
        arcs stayed there, or asked for over the bus if rows were in pinned host memory.
    """

    title: str
    date: str = ""
    command: str = ""
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    graph: Mapping[str, Scalar] = field(default_factory=dict)
    machine: Mapping[str, Scalar] = field(default_factory=dict)
    packages: Mapping[str, Scalar] = field(default_factory=dict)
    graph_arcs: int | None = None
    searches: tuple[SearchRecord, ...] = ()
    stages: tuple[Stage, ...] = ()
    memory: tuple[MemorySample, ...] = ()
    memory_limit_bytes: int | None = None
    memory_baseline_bytes: int | None = None
    degree_histogram: DegreeHistogram | None = None
    output_block: str = ""
    validation: Validation | None = None
    energy: tuple[EnergyRecord, ...] = ()
    tiers: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return a mapping that JSON can carry."""
        return {"data_version": DATA_VERSION, **asdict(self)}

    @property
    def reads_store(self) -> bool:
        """Whether searches are there whose arcs stayed in the store."""
        return any(search.read_bytes is not None for search in self.searches)

    def kernels(self) -> dict[str, list[SearchRecord]]:
        """Searches by kernel, kernels in the order of their first search."""
        grouped: dict[str, list[SearchRecord]] = {}
        for search in self.searches:
            grouped.setdefault(search.kernel, []).append(search)
        return grouped


def write_report_data(path: str | Path, data: ReportData) -> None:
    """Write ``report.json``; NaN and infinity are refused with ValueError."""
    text = json.dumps(data.to_dict(), allow_nan=False, ensure_ascii=False)
    with whole_file(Path(path)) as partial:
        partial.write_text(text + "\n", encoding="utf-8")
