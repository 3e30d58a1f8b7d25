"""Graph500's output block, label for label.

References
----------
.. [1] Graph500 reference code 3.0, ``main.c``: labels, order and number formats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ooc_graph.report.data import SearchRecord
from ooc_graph.report.statistics import (
    Quartiles,
    RateStatistics,
    Statistics,
    statistics_of,
    teps_statistics,
)

INVALID_RUN = "No results printed for invalid run.\n"

_VALUE_COLUMN = 32
_KERNELS = ("bfs", "sssp")


@dataclass(frozen=True)
class KernelRuns:
    """All timed searches of one kernel, in the order of the search keys.

    ``times_s`` are seconds of the searches alone. ``edges`` is Graph500's nedge, the numerator of
    TEPS: input tuples whose ends the search reached, duplicates counted, self-loops not.
    ``validate_s`` is empty if validation was skipped; the block then has no validate lines.
    """

    name: str
    roots: tuple[int, ...]
    times_s: tuple[float, ...]
    edges: tuple[int, ...]
    validate_s: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in _KERNELS:
            raise ValueError(f"kernel {self.name!r} is none of {', '.join(_KERNELS)}")
        counts = {len(self.roots), len(self.times_s), len(self.edges)}
        if self.validate_s:
            counts.add(len(self.validate_s))
        if len(counts) != 1:
            raise ValueError(f"{self.name}: roots, times, edges and validations differ in number")

    @classmethod
    def of(cls, searches: Sequence[SearchRecord]) -> KernelRuns:
        """Take the searches of one kernel, or raise ValueError."""
        names = {search.kernel for search in searches}
        if len(names) != 1:
            raise ValueError(f"searches of one kernel are needed, not of {sorted(names)}")
        edges = [search.edges for search in searches if search.edges is not None]
        validate_s = [search.validate_s for search in searches if search.validate_s is not None]
        roots, times_s = zip(*((search.root, search.time_s) for search in searches), strict=True)
        return cls(names.pop(), roots, times_s, tuple(edges), tuple(validate_s))

    def teps(self) -> RateStatistics:
        """Statistics of traversed edges per second."""
        return teps_statistics(self.times_s, self.edges)


@dataclass(frozen=True)
class Graph500Result:
    """What the output block of one run is made from.

    There are ``searches`` search keys for each kernel (NBFS). ``processes``, of workers, is printed
    as num_mpi_processes. If it is not ``valid``, as a validation failed, no figure is printed.
    """

    scale: int
    edge_factor: int
    searches: int
    generation_s: float
    processes: int
    construction_s: float
    kernels: tuple[KernelRuns, ...]
    valid: bool = True

    def __post_init__(self) -> None:
        names = [kernel.name for kernel in self.kernels]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"one run of bfs, of sssp or of each is needed, not {names}")
        if any(len(kernel.roots) != self.searches for kernel in self.kernels):
            raise ValueError(f"a kernel has not run {self.searches} searches")
        if len({(kernel.roots, kernel.edges) for kernel in self.kernels}) != 1 and self.valid:
            raise ValueError("bfs and sssp must have the same search keys and edge counts")


def output_block(result: Graph500Result) -> str:
    """Graph500's result lines, as printed to stdout [1]_; ``INVALID_RUN`` if validation failed.

    Lines of a kernel that did not run are left out. TEPS counts input tuples with duplicates
    (see :class:`KernelRuns`), as the reference code does.
    """
    if not result.valid:
        return INVALID_RUN
    by_name = {kernel.name: kernel for kernel in result.kernels}
    kernels = [by_name[name] for name in _KERNELS if name in by_name]
    return "".join(f"{line}\n" for line in _lines(result, kernels))


def _lines(result: Graph500Result, kernels: list[KernelRuns]) -> Iterator[str]:
    yield _line("SCALE:", "%d", result.scale)
    yield _line("edgefactor:", "%d", result.edge_factor)
    yield _line("NBFS:", "%d", result.searches)
    yield _line("graph_generation:", "%g", result.generation_s)
    yield _line("num_mpi_processes:", "%d", result.processes)
    yield _line("construction_time:", "%g", result.construction_s)
    for kernel in kernels:
        yield from _seven(_prefix(kernel), "time", "%g", statistics_of(kernel.times_s))
    yield from _seven("", "nedge", "%.11g", statistics_of(kernels[0].edges))
    for kernel in kernels:
        yield from _teps(_prefix(kernel), kernel.teps())
    for kernel in kernels:
        if kernel.validate_s:
            yield from _seven(_prefix(kernel), "validate", "%g", statistics_of(kernel.validate_s))


def _seven(prefix: str, quantity: str, form: str, figures: Statistics) -> Iterator[str]:
    yield from _quartiles(prefix, quantity, form, figures)
    yield _line(f"{prefix}mean_{quantity}:", form, figures.mean)
    yield _line(f"{prefix}stddev_{quantity}:", form, figures.stddev)


def _teps(prefix: str, figures: RateStatistics) -> Iterator[str]:
    yield from _quartiles(prefix, "TEPS", "%g", figures)
    # The "!" marks the figure that ranks a run; it stands two columns before the value.
    marked = f"{prefix}harmonic_mean_TEPS:".ljust(_VALUE_COLUMN - 3) + "!"
    yield _line(marked, "%g", figures.harmonic_mean)
    yield _line(f"{prefix}harmonic_stddev_TEPS:", "%g", figures.harmonic_stddev)


def _quartiles(prefix: str, quantity: str, form: str, figures: Quartiles) -> Iterator[str]:
    yield _line(f"{prefix}min_{quantity}:", form, figures.minimum)
    yield _line(f"{prefix}firstquartile_{quantity}:", form, figures.first_quartile)
    yield _line(f"{prefix}median_{quantity}:", form, figures.median)
    yield _line(f"{prefix}thirdquartile_{quantity}:", form, figures.third_quartile)
    yield _line(f"{prefix}max_{quantity}:", form, figures.maximum)


def _prefix(kernel: KernelRuns) -> str:
    return kernel.name.ljust(5)


def _line(label: str, form: str, value: float) -> str:
    return label.ljust(_VALUE_COLUMN) + form % value
