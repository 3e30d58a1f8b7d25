"""Rows of distances: sums at the edges of their types, and columns of the sources themselves."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ooc_graph.answers.asked import Asked, own_columns
from ooc_graph.answers.many import SourceRows
from ooc_graph.answers.reductions import closeness_of, sum_of
from ooc_graph.errors import InputError


def rows_of(distances: np.ndarray, reduce: str, targets: Any = None) -> SourceRows:
    """Of two sources, vertices 7 and 8, whose distances are found; vertex 9 has no row."""
    internal = np.append(np.arange(len(distances)), -1)
    ids: Any = SimpleNamespace(internal_of=internal, original_at=lambda place: 7 + place)
    answer = np.stack([distances, np.roll(distances, 1)])
    return SourceRows(answer, np.arange(2), ids, Asked(targets, None, reduce))


def test_sums_of_integers_that_do_not_fit() -> None:
    """Refused with the source and the bound; all that fits is exact, and so is closeness."""
    distances = np.arange(24) << 55
    (one, _) = rows_of(distances, "sum", np.arange(23)).reduced("sum")
    assert one.value == 253 << 55 > 2**62
    with pytest.raises(InputError) as caught:
        rows_of(distances, "sum").reduced("sum")
    assert f"from vertex 7 sum up to {276 << 55}, beyond the bound of {2**63 - 1}" in str(
        caught.value
    )
    (one, _) = rows_of(distances, "closeness").reduced("closeness")
    assert one.value == 23 / (276 << 55) * (23 / 24)


def test_sums_of_floats_that_do_not_fit() -> None:
    """Warnings are errors here."""
    distances = np.arange(400) * 1e305
    with pytest.raises(InputError, match=r"vertex 7 sum up to inf, beyond the bound of 1\.797"):
        rows_of(distances, "sum").reduced("sum")
    (one, _) = rows_of(distances, "closeness").reduced("closeness")
    assert one.value == pytest.approx(1 / (200 * 1e305) * 399 / 400, rel=1e-12)
    (one, _) = rows_of(distances, "closeness", np.arange(10)).reduced("closeness")
    assert one.value == 9 / distances[:10].sum() * (9 / 400)


def test_sums_of_floats_of_both_signs() -> None:
    """Parts of a sum that fits may exceed the type."""
    distances = np.array([1.5e308, 1.5e308, -1.5e308, -1.5e308, 2.0] * 3)
    assert sum_of(distances) == pytest.approx(6, abs=1e293)
    assert sum_of(distances[:2]) == np.inf
    assert sum_of(-distances[:2]) == -np.inf
    assert math.isnan(closeness_of(-distances[:2], 2, 3))


@pytest.mark.parametrize("cutoff", [None, 0, -1])
def test_columns_of_the_sources_themselves(cutoff: int | None) -> None:
    random = np.random.default_rng(1)
    for sources, targets in ((0, 5), (1, 5), (9, 5), (9, 30)):
        places = random.permutation(40)[:sources]
        aimed = random.permutation(40)[:targets]
        expected = [np.flatnonzero(aimed == place).tolist() or [-1] for place in places]
        found = own_columns(places, Asked(aimed, cutoff))
        assert found.tolist() == [-1 if cutoff == -1 else at for (at,) in expected]
        whole = own_columns(places, Asked(None, cutoff))
        assert whole.tolist() == [-1 if cutoff == -1 else place for place in places]
