"""The types of what callers may choose have the values that are accepted, no more and no fewer."""

from __future__ import annotations

import inspect
from typing import Any, get_args

import pytest

import ooc_graph as og
from ooc_graph import types
from ooc_graph.answers.reductions import REDUCTIONS
from ooc_graph.edges.options import WEIGHT_TYPES, EdgeOptions
from ooc_graph.layout.names import FROM_ONE
from ooc_graph.model.request import EXCHANGES, GRAPH500, METHODS
from ooc_graph.model.resources import DEVICES
from ooc_graph.shards.build_options import BuildOptions
from ooc_graph.sinks.single import CUPY, DASK, NUMPY
from ooc_graph.strategies.many.tiers import KERNELS as MANY


@pytest.mark.parametrize(
    ("typed", "accepted"),
    [
        (types.DeviceName, DEVICES),
        (types.Exchange, EXCHANGES),
        (types.Method, METHODS),
        (types.Arrays, (NUMPY, CUPY, DASK)),
        (types.Reduction, REDUCTIONS),
        (types.Kernel, (*FROM_ONE, *MANY, GRAPH500)),
        (types.WeightType, WEIGHT_TYPES),
        (types.FileFormat, og.FORMATS),
    ],
)
def test_types_have_the_values_that_are_accepted(typed: Any, accepted: Any) -> None:
    assert set(get_args(typed)) == set(accepted)


def test_row_orders_are_those_of_a_build() -> None:
    for rows in get_args(types.RowOrders):
        assert BuildOptions(rows=rows).orders(True)
    with pytest.raises(og.errors.UsageError, match="choose hub, light or both"):
        BuildOptions(rows="other").orders(True)


def test_functions_that_take_edges_have_the_same_options() -> None:
    options = inspect.get_annotations(EdgeOptions)
    for function in (og.open_source, og.build):
        own = inspect.signature(function).parameters
        assert {name: own[name].annotation for name in options} == {
            name: kind.__forward_arg__ for name, kind in options.items()
        }
