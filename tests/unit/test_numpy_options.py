"""Options that are NumPy's scalars are what Python's own are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ooc_graph.answers.asked import Asked
from ooc_graph.edges.opening import open_source
from ooc_graph.edges.options import ReadOptions
from ooc_graph.errors import UsageError
from ooc_graph.shards.build_options import BuildOptions


def test_how_edges_are_read_is_said_in_pythons_own_values() -> None:
    """It goes into a store's attributes as JSON; True and False are looked for by identity."""
    edges = np.array([0, 1]), np.array([1, 2]), np.array([1, -2])
    source = open_source(edges, directed=np.bool_(True), weight=np.bool_(False))
    assert source.directed is True
    assert source.weight_dtype is None
    nothing: Any = dict.fromkeys(["weight", "columns", "delimiter", "weight_type"])
    assert ReadOptions(directed=None, header=np.bool_(False), **nothing).header is False


def test_what_is_asked_of_sources_is_pythons_own() -> None:
    asked = Asked(cutoff=np.int32(3), parents=np.bool_(True))  # type: ignore[arg-type]
    assert (type(asked.cutoff), asked.parents) == (int, True)
    assert isinstance(asked.parents, bool)


@pytest.mark.parametrize("shards", [0, 3, -2, 2.0, "2", np.int64(3)])
def test_shards_are_a_power_of_two(shards: Any) -> None:
    with pytest.raises(UsageError, match="power of two"):
        BuildOptions(shards=shards)


def test_shards_are_pythons_own_integers() -> None:
    assert type(BuildOptions(shards=np.int64(8)).shards) is int  # type: ignore[arg-type]
