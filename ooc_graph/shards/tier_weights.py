"""What SSSP knows of the weights of rows in the store, from a few blocks of each side."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.sssp.survey import Known, Survey, first_rows, sampled_rows, survey_of
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.shards.lengths import MOST_SURVEYED
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, IntArray

_WHOLE = 1 << 30


def heaviest_of_long(rows: TierRows, short: int) -> Any:
    """Largest weight of the rows of more than ``short`` arcs: that of the last arc of one."""
    lengths = rows.heads.lengths
    long = np.flatnonzero(lengths > short)
    return arcs_at(rows, long, lengths[long].astype(np.int64) - 1).max(initial=0)


def arcs_at(rows: TierRows, which: IntArray, arcs: IntArray) -> AnyArray:
    """Weight of one arc of each of some ascending rows."""
    weights = np.empty(len(which), rows.heads.weights.dtype)
    most = len(rows.window.row)
    for begin in range(0, len(which), most):
        some = which[begin : begin + most]
        rows.window.row[: len(some)] = some
        rows.window.cursor[: len(some)] = arcs[begin : begin + most]
        target = weights[begin : begin + most]

        def scan(*part: Any, some: IntArray = some, target: AnyArray = target) -> int:
            _, window, first, end, kept, _, column = part
            at = np.searchsorted(some, window.row[first:end])
            target[at] = column[window.offset[1, first:end]]
            return int(kept)

        rows.scan(len(some), scan, 1)
    return weights


def survey_tier(rows: TierRows, head_share: float) -> Survey:
    """Survey of light-first rows, from a few rows alone: each takes a block or two."""
    lengths, firsts = rows.heads.lengths, rows.heads.first
    last = max(0, sampled_rows(len(lengths)) - 1)
    sampled = np.unique(np.linspace(0, last, MOST_SURVEYED).astype(np.int64))
    sampled = sampled[: len(lengths)]
    sampled = sampled[lengths[sampled] > 0]
    middle = arcs_at(rows, sampled, lengths[sampled].astype(np.int64) // 2)
    lightest = firsts[sampled] if len(firsts) else arcs_at(rows, sampled, np.zeros_like(sampled))
    return survey_of(int(head_share * _WHOLE), _WHOLE, lightest, middle)


def known_weights(graph: Graph, out: TierRows, heaviest: Any) -> Known:
    """What SSSP knows of the weights, from the rows of out-arcs that are loaded."""
    return Known(survey_tier(out, graph.head_share(first_rows(graph.rows))), heaviest)
