"""Graph500's statistics of one quantity over the searches, and of rates through their reciprocals.

A rate over searches of equal work is averaged harmonically: time per edge is averaged and
inverted, so that one slow search weighs as much as it lasted.

References
----------
.. [1] Graph500 reference code 3.0, ``main.c`` (quartiles, harmonic mean and its deviation).
.. [2] N. Norris, "The standard errors of the geometric and harmonic means and their application
   to index numbers", Annals of Mathematical Statistics 11 (1940), 445-448.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass


def in_seconds(value: float) -> str:
    """A time with its unit."""
    return f"{value:.3g} s" if value < 100 else f"{value:,.0f} s"


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
