"""What is fuzzed: a reader of bytes by name, and what counts as right."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ooc_graph.errors import (
    CorruptStoreError,
    InputError,
    NotAStoreError,
    OutputExistsError,
    UsageError,
)

REFUSALS = (InputError, UsageError, CorruptStoreError, NotAStoreError, OutputExistsError)
"""What bytes may be refused with: no fault of the system, of memory, or of the package."""
READ, REFUSED = "read", "refused"


@dataclass(frozen=True)
class Fuzzed:
    """A reader that is ready: valid inputs to begin with, and what reads one.

    ``read`` raises one of the refusals, or, if the bytes are read as something else than what they
    say, an AssertionError. A refusal of several ``lines`` is right for job files alone.
    """

    seeds: Sequence[bytes]
    read: Callable[[bytes], object]
    lines: bool = False

    def outcome(self, data: bytes) -> str:
        """``read`` or ``refused``; whatever else is raised is a defect."""
        try:
            self.read(data)
        except REFUSALS as error:
            said = str(error)
            shown = said.replace("\n", "") if self.lines else said
            assert shown.isprintable(), f"not one line of text: {said!r}"
            return REFUSED
        return READ


Prepare = Callable[[Path], Fuzzed]
TARGETS: dict[str, Prepare] = {}
"""By name, what prepares a reader in an empty folder."""


def target(name: str) -> Callable[[Prepare], Prepare]:
    """Add a function that prepares a reader to the table."""

    def added(prepare: Prepare) -> Prepare:
        assert name not in TARGETS
        TARGETS[name] = prepare
        return prepare

    return added


def json_of(data: bytes) -> Any:
    """What the bytes are as JSON; None if they are none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def load_all() -> dict[str, Prepare]:
    """The table, with the targets of all modules."""
    from tests.fuzz import csgraph_targets, edge_targets, job_targets, store_targets

    modules = (edge_targets, store_targets, job_targets, csgraph_targets)
    assert all(modules)
    return TARGETS
