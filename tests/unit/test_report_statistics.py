"""Statistics: hand-computed values, the statistics module, and the reference's own quartiles."""

from __future__ import annotations

import json
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ooc_graph.report.graph500 import statistics_of, teps_statistics

values = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=80)


def test_eight_values_by_hand():
    found = statistics_of([7, 0, 1, 2, 6, 5, 4, 3])
    # n = 8: first quartile (x[1] + x[2]) / 2, third (x[7 - 1] + x[7 - 2]) / 2.
    assert (found.first_quartile, found.median, found.third_quartile) == (1.5, 3.5, 5.5)
    assert (found.minimum, found.maximum, found.mean) == (0, 7, 3.5)
    assert found.stddev == pytest.approx(math.sqrt(6))


def test_sixty_four_values_by_hand():
    found = statistics_of([value * value for value in range(64)])
    assert found.first_quartile == (15**2 + 16**2) / 2
    assert found.median == (31**2 + 32**2) / 2
    assert found.third_quartile == (48**2 + 47**2) / 2


@pytest.mark.parametrize(
    ("count", "quartiles"),
    [(2, (0, 0.5, 1)), (3, (0, 1, 2)), (4, (0.5, 1.5, 2.5)), (5, (1, 2, 3)), (7, (1, 3, 5))],
)
def test_quartiles_of_few_values(count, quartiles):
    found = statistics_of(range(count))
    assert (found.first_quartile, found.median, found.third_quartile) == quartiles


def test_one_value_has_no_deviation():
    found = statistics_of([2.5])
    assert {found.minimum, found.first_quartile, found.median, found.third_quartile} == {2.5}
    assert (found.maximum, found.mean) == (2.5, 2.5)
    assert math.isnan(found.stddev)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["stddev"] is None


@given(values)
def test_agrees_with_the_standard_library(x):
    found = statistics_of(x)
    assert found.mean == pytest.approx(statistics.fmean(x))
    assert found.median == pytest.approx(statistics.median(x))
    if len(x) > 1:
        assert found.stddev == pytest.approx(statistics.stdev(x), rel=1e-6, abs=1e-9)


@given(values)
def test_quartiles_mirror_when_values_are_negated(x):
    found, mirrored = statistics_of(x), statistics_of([-value for value in x])
    assert found.first_quartile == -mirrored.third_quartile
    assert found.minimum <= found.first_quartile <= found.median
    assert found.median <= found.third_quartile <= found.maximum


@given(values, st.randoms(use_true_random=False))
def test_order_does_not_matter(x, random):
    shuffled = list(x)
    random.shuffle(shuffled)
    # As text, since a single value's deviation is NaN.
    assert repr(statistics_of(x)) == repr(statistics_of(shuffled))


@pytest.mark.parametrize("bad", [[], [1.0, math.nan], [math.inf]])
def test_refuses_what_has_no_statistics(bad):
    with pytest.raises(ValueError, match="statistics of"):
        statistics_of(bad)


def test_teps_by_hand():
    found = teps_statistics([1.0, 2.0, 4.0, 5.0], [10, 10, 10, 10])
    assert found.harmonic_mean == pytest.approx(10 / 3)
    # Seconds per edge 0.1, 0.2, 0.4, 0.5: quartiles 0.15, 0.3, 0.45.
    assert found.first_quartile == pytest.approx(1 / 0.45)
    assert found.median == pytest.approx(1 / 0.3)
    assert found.third_quartile == pytest.approx(1 / 0.15)
    assert (found.minimum, found.maximum) == (pytest.approx(2), pytest.approx(10))
    deviation = statistics.stdev([0.1, 0.2, 0.4, 0.5])
    assert found.harmonic_stddev == pytest.approx(deviation / (0.3**2 * math.sqrt(3)))


@given(st.lists(st.tuples(st.floats(1e-4, 1e3), st.integers(1, 10**12)), min_size=2, max_size=70))
def test_harmonic_mean_agrees_with_the_standard_library(runs):
    times_s, edges = zip(*runs, strict=True)
    expected = statistics.harmonic_mean([m / t for t, m in runs])
    assert teps_statistics(times_s, edges).harmonic_mean == pytest.approx(expected)


def test_teps_of_one_search():
    found = teps_statistics([0.5], [100])
    assert (found.harmonic_mean, found.minimum, found.maximum) == (200, 200, 200)
    assert found.to_dict()["harmonic_stddev"] is None


@pytest.mark.parametrize(("times_s", "edges"), [([0.0], [1]), ([1.0], [0]), ([1.0], [1, 2])])
def test_teps_refuses_what_has_no_rate(times_s, edges):
    with pytest.raises(ValueError, match=r"TEPS needs|edge counts"):
        teps_statistics(times_s, edges)
