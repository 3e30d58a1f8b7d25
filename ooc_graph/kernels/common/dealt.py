"""Internal ids of a shard's rows, inside kernels; and which of its rows a search goes along."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.types import DEAL_BLOCK, DEAL_BLOCK_BITS, Dealing, Rows, Shard


class Dealt(NamedTuple):
    """A `Dealing` as kernels take it: binary logarithm of the number of shards, and the shard."""

    shard_bits: int
    shard: int


WHOLE = Dealt(0, 0)
"""A graph in one piece: row numbers are internal ids."""


def dealt_of(dealing: Dealing) -> Dealt:
    """The same, for kernels, which shift by bits."""
    assert dealing.shards.bit_count() == 1
    return Dealt(dealing.shards.bit_length() - 1, dealing.shard)


@subroutine
def internal_of(row: int, dealt: Any) -> Any:
    """Internal id of a row. Rows of one block of `DEAL_BLOCK` have consecutive ids."""
    block = ((row >> DEAL_BLOCK_BITS) << dealt.shard_bits) | dealt.shard
    return (block << DEAL_BLOCK_BITS) | (row & (DEAL_BLOCK - 1))


@subroutine
def local_of(internal: int, dealt: Any) -> Any:
    """Row of an internal id in the shard that owns it."""
    block = (internal >> DEAL_BLOCK_BITS) >> dealt.shard_bits
    return (block << DEAL_BLOCK_BITS) | (internal & (DEAL_BLOCK - 1))


@subroutine
def is_own(internal: int, dealt: Any) -> bool:
    """Whether the shard owns an internal id."""
    block = internal >> DEAL_BLOCK_BITS
    return bool(block & ((1 << dealt.shard_bits) - 1) == dealt.shard)


@kernel
def arcs_of(offsets: Any, dealt: Any, vertices: Any) -> int:
    """Arcs of own rows, named by internal ids."""
    arcs = 0
    for index in range(len(vertices)):
        row = local_of(np.int64(vertices[index]), dealt)
        arcs += offsets[row + 1] - offsets[row]
    return arcs


@kernel
def copy_own(values: Any, dealt: Any, own: Any) -> None:
    """Copy the values of the own rows from those of all internal ids."""
    for base in range(0, len(own), DEAL_BLOCK):
        first, rows = internal_of(base, dealt), min(DEAL_BLOCK, len(own) - base)
        # Slices, which are indexed without a look at the sign: several values an instruction.
        mine, theirs = own[base : base + rows], values[first : first + rows]
        for index in range(rows):
            mine[index] = theirs[index]


def require_whole(dealing: Dealing) -> None:
    """Refuse one shard of many, by UsageError, where a search wants all of the graph."""
    if dealing.shards != 1:
        raise UsageError(
            f"a search on one rank needs the whole graph, got shard {dealing.shard} "
            f"of {dealing.shards}"
        )


def hub_rows(shard: Shard) -> tuple[Rows, Rows]:
    """Hub-first rows of out- and in-arcs; one and the same object when undirected."""
    return _both(shard, shard.out_hub, shard.into_hub, "BFS needs hub-first rows")


def light_rows(shard: Shard) -> tuple[Rows, Rows]:
    """Light-first rows of out- and in-arcs; one and the same object when undirected."""
    needs = "SSSP needs light-first rows with weights"
    return _both(shard, shard.out_light, shard.into_light, needs)


def _both(shard: Shard, out: Rows | None, into: Rows | None, needs: str) -> tuple[Rows, Rows]:
    """Both sides of a shard, or UsageError if they are not loaded."""
    into = into if shard.directed else out
    if out is None or into is None:
        raise UsageError(f"{needs}, and none are loaded")
    return out, into
