"""What a report page is made from, and its JSON form.

All times named ``start_s``, ``stop_s`` and ``MemorySample.time_s`` are seconds since the start
of the run, on one clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from ooc_graph.layout.whole_file import whole_file
from ooc_graph.types import AnyArray

Scalar = str | int | float | bool | None
ValidationStatus = Literal["passed", "failed", "skipped"]

DATA_VERSION = 1


@dataclass(frozen=True)
class LevelRecord:
    """One level (BFS) or phase (SSSP) of a search; a phase has no one frontier: no ``vertices``.

    The ``direction`` is "push" or "pull", or a phase's name; empty if neither is known.
    """

    vertices: int | None
    arcs: int
    direction: str = ""


@dataclass(frozen=True)
class SearchRecord:
    """One timed search: seconds of the search alone, and of its validation; None if skipped.

    ``edges`` is the numerator of TEPS; ``reached`` counts the root, too. ``read_bytes`` of the
    store were read, for ``fetched_rows``, in ``reading_s`` seconds, for ``waited_s`` of which the
    search stood still; None if all arcs were in memory, or it was not measured.
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
    """Energy of repeated searches of one kernel, or in ``reason`` why there is none.

    ``seconds`` are of all ``searches``, with pauses between them. ``joules`` are by what was
    measured (its name and counter), ``watts`` the average power of all that. ``mteps_per_watt`` is
    harmonic mean TEPS / 10^6 / watts, or None if energy was not measured for long enough.
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

    ``date`` is UTC, as text; ``command`` makes the run again. Parameters, graph, machine and
    packages are tables of name and value, in the order to show. Shares are of ``graph_arcs``; None
    shows counts. The limit is on the memory above the baseline, the idle processes' memory. Degrees
    are undirected, or out + in. ``output_block`` is Graph500's, as printed. ``tiers`` says by
    kernel, in names and values, what was in memory, and what was read of the store or asked for
    over the bus. ``parts`` has the seconds of each kernel by part.
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
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def reads_store(self) -> bool:
        """Whether searches are there whose arcs stayed in the store."""
        return any(search.read_bytes is not None for search in self.searches)


def by_kernel(searches: Iterable[SearchRecord]) -> dict[str, list[SearchRecord]]:
    """Searches by kernel, kernels in the order of their first search."""
    grouped: dict[str, list[SearchRecord]] = {}
    for search in searches:
        grouped.setdefault(search.kernel, []).append(search)
    return grouped


def write_report_data(path: str | Path, data: ReportData) -> None:
    """Write ``report.json``; NaN and infinity are refused with ValueError."""
    text = json.dumps(
        {"data_version": DATA_VERSION, **asdict(data)}, allow_nan=False, ensure_ascii=False
    )
    with whole_file(Path(path)) as partial:
        partial.write_text(text + "\n", encoding="utf-8")
