"""Graph500's statistics of its searches, and its output block, label for label.

A rate over searches of equal work is averaged harmonically: time per edge is averaged and
inverted, so that one slow search weighs as much as it lasted.

References
----------
.. [1] Graph500 reference code 3.0, ``main.c``: quartiles, harmonic mean and its deviation; labels,
   order and number formats.
.. [2] N. Norris, "The standard errors of the geometric and harmonic means and their application
   to index numbers", Annals of Mathematical Statistics 11 (1940), 445-448.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass

from ooc_graph.layout.names import FROM_ONE
from ooc_graph.report.data import SearchRecord, by_kernel


def in_seconds(value: float) -> str:
    """A time with its unit."""
    if 0 < value < 1e-3:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s" if value < 100 else f"{value:,.0f} s"


def engineering(value: float) -> tuple[str, str]:
    """A number of four digits, and the prefix of its unit."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.4g}", prefix
    return f"{value:.4g}", ""


def by_part(seconds: Mapping[str, float]) -> str:
    """Parts and what each took, in one line."""
    return ", ".join(f"{part} {in_seconds(taken)}" for part, taken in seconds.items())


@dataclass(frozen=True)
class Quartiles:
    """Five figures of a quantity or rate, in its own unit; quartiles by Graph500's formula."""

    minimum: float
    first_quartile: float
    median: float
    third_quartile: float
    maximum: float

    def to_dict(self) -> dict[str, float | None]:
        """Return a mapping that JSON can carry: what is not finite becomes None."""
        figures = asdict(self).items()
        return {name: value if math.isfinite(value) else None for name, value in figures}


@dataclass(frozen=True)
class Statistics(Quartiles):
    """The seven figures of Graph500; ``stddev`` is that of a sample (n - 1), NaN for one value."""

    mean: float
    stddev: float


@dataclass(frozen=True)
class RateStatistics(Quartiles):
    """Statistics of a rate (TEPS): reciprocals of the opposite figures of seconds per edge.

    ``harmonic_stddev`` is the standard error of the harmonic mean [2]_; NaN for a single search.
    """

    harmonic_mean: float
    harmonic_stddev: float


def statistics_of(values: Sequence[float]) -> Statistics:
    """Seven statistics of finite values as Graph500 computes them [1]_; ValueError of others."""
    x = sorted(float(value) for value in values)
    if not x:
        raise ValueError("statistics of no values")
    if not all(map(math.isfinite, x)):
        raise ValueError("statistics of values that are not finite")
    n = len(x)
    # fsum, so that the figures do not depend on the order of the searches.
    mean = math.fsum(x) / n
    squares = math.fsum((value - mean) ** 2 for value in x)
    return Statistics(
        minimum=x[0],
        first_quartile=(x[(n - 1) // 4] + x[n // 4]) / 2,
        median=(x[(n - 1) // 2] + x[n // 2]) / 2,
        third_quartile=(x[n - 1 - (n - 1) // 4] + x[n - 1 - n // 4]) / 2,
        maximum=x[-1],
        mean=mean,
        stddev=math.sqrt(squares / (n - 1)) if n > 1 else math.nan,
    )


def teps_statistics(times_s: Sequence[float], edges: Sequence[int]) -> RateStatistics:
    """Statistics of traversed edges per second over the searches [1]_; ValueError of others."""
    if len(times_s) != len(edges):
        raise ValueError(f"{len(times_s)} times for {len(edges)} edge counts")
    if not all(t > 0 for t in times_s) or not all(m > 0 for m in edges):
        raise ValueError("TEPS needs times and edge counts above zero")
    per_edge = statistics_of([float(t) / float(m) for t, m in zip(times_s, edges, strict=True)])
    n = len(times_s)
    error = per_edge.stddev / (per_edge.mean**2 * math.sqrt(n - 1)) if n > 1 else math.nan
    return RateStatistics(
        minimum=1 / per_edge.maximum,
        first_quartile=1 / per_edge.third_quartile,
        median=1 / per_edge.median,
        third_quartile=1 / per_edge.first_quartile,
        maximum=1 / per_edge.minimum,
        harmonic_mean=1 / per_edge.mean,
        harmonic_stddev=error,
    )


INVALID_RUN = "No results printed for invalid run.\n"

_VALUE_COLUMN = 32
_FIGURES = ("min", "firstquartile", "median", "thirdquartile", "max", "mean", "stddev")


@dataclass(frozen=True)
class Graph500Result:
    """What the output block of one run is made from.

    ``records`` are the timed searches of all kernels. Of each kernel there are as many as there are
    ``searches`` (NBFS), in the order of the search keys. ``edges`` of a record is Graph500's nedge,
    the numerator of TEPS: input tuples whose ends the search reached, duplicates counted,
    self-loops not. If validation was skipped, the block has no validate lines. ``processes``, of
    workers, is printed as num_mpi_processes. If it is not ``valid``, as a validation failed, no
    figure is printed.
    """

    scale: int
    edge_factor: int
    searches: int
    generation_s: float
    processes: int
    construction_s: float
    records: tuple[SearchRecord, ...]
    valid: bool = True

    def __post_init__(self) -> None:
        kernels = by_kernel(self.records)
        if not kernels or not kernels.keys() <= set(FROM_ONE):
            raise ValueError(f"searches of bfs, of sssp or of each are needed, not {list(kernels)}")
        for name, records in kernels.items():
            if len(records) != self.searches:
                raise ValueError(f"{name} has not run {self.searches} searches")
            if len(_edges(records)) < len(records):
                raise ValueError(f"{name}: edges of some searches are not known")
            if len(_validate_s(records)) not in (0, len(records)):
                raise ValueError(f"{name}: some searches are validated, others not")
        keys = {tuple((one.root, one.edges) for one in records) for records in kernels.values()}
        if len(keys) != 1 and self.valid:
            raise ValueError("bfs and sssp must have the same search keys and edge counts")


def _times_s(records: Sequence[SearchRecord]) -> list[float]:
    return [one.time_s for one in records]


def _edges(records: Sequence[SearchRecord]) -> list[int]:
    return [one.edges for one in records if one.edges is not None]


def _validate_s(records: Sequence[SearchRecord]) -> list[float]:
    return [one.validate_s for one in records if one.validate_s is not None]


def output_block(result: Graph500Result) -> str:
    """Graph500's result lines, as printed to stdout [1]_; ``INVALID_RUN`` if validation failed."""
    if not result.valid:
        return INVALID_RUN
    return "".join(f"{line}\n" for line in _lines(result))


def _lines(result: Graph500Result) -> Iterator[str]:
    yield _line("SCALE:", "%d", result.scale)
    yield _line("edgefactor:", "%d", result.edge_factor)
    yield _line("NBFS:", "%d", result.searches)
    yield _line("graph_generation:", "%g", result.generation_s)
    yield _line("num_mpi_processes:", "%d", result.processes)
    yield _line("construction_time:", "%g", result.construction_s)
    searched = by_kernel(result.records)
    kernels = {name.ljust(5): searched[name] for name in FROM_ONE if name in searched}
    for prefix, records in kernels.items():
        yield from _figures(prefix, "time", "%g", statistics_of(_times_s(records)))
    yield from _figures("", "nedge", "%.11g", statistics_of(_edges(next(iter(kernels.values())))))
    for prefix, records in kernels.items():
        yield from _teps(prefix, teps_statistics(_times_s(records), _edges(records)))
    for prefix, records in kernels.items():
        if validate_s := _validate_s(records):
            yield from _figures(prefix, "validate", "%g", statistics_of(validate_s))


def _figures(prefix: str, quantity: str, form: str, figures: Quartiles) -> Iterator[str]:
    """Lines of the five quartiles, and of mean and deviation if they are plain ones."""
    plain = len(_FIGURES) if isinstance(figures, Statistics) else len(_FIGURES) - 2
    for name, value in zip(_FIGURES[:plain], astuple(figures), strict=False):
        yield _line(f"{prefix}{name}_{quantity}:", form, value)


def _teps(prefix: str, figures: RateStatistics) -> Iterator[str]:
    yield from _figures(prefix, "TEPS", "%g", figures)
    # The "!" marks the figure that ranks a run; it stands two columns before the value.
    marked = f"{prefix}harmonic_mean_TEPS:".ljust(_VALUE_COLUMN - 3) + "!"
    yield _line(marked, "%g", figures.harmonic_mean)
    yield _line(f"{prefix}harmonic_stddev_TEPS:", "%g", figures.harmonic_stddev)


def _line(label: str, form: str, value: float) -> str:
    return label.ljust(_VALUE_COLUMN) + form % value
