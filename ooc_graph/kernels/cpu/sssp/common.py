"""What the ranks of an SSSP have in common that search together, and what each has alone (CPU).

In memory that all processes map, behind the distances, stand what each rank counts in a step, and
whose distance it has improved there. Two of each take turns, a step each: who writes for step n + 2
knows that all have come to the end of step n + 1, and so have read what was written for step n.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common import meeting
from ooc_graph.kernels.common.compiled import subroutine
from ooc_graph.kernels.common.dealt import Dealt
from ooc_graph.kernels.common.meeting import Waits
from ooc_graph.kernels.common.peers import Outset
from ooc_graph.kernels.common.sssp.rows import LightRows, Wave
from ooc_graph.kernels.common.team import CONTROL_WORDS, FIRST_FREE, LINE, OPERATION
from ooc_graph.kernels.cpu.sssp.parents import Scratch
from ooc_graph.kernels.cpu.sssp.push import HeadedRows
from ooc_graph.types import AnyArray, IntArray

COMMON_BYTES = 4 << 20
"""Memory behind the distances; pages that nobody writes to take none."""
COUNTED, STAGES = 4, 64
"""Numbers that a rank counts in a step; and stages of a push that may be the inner one: if there
are more, later ones are not looked at, and fewer vertices are inner ones."""
WITHIN, LIMITS = 4, 5
"""Besides those of `ooc_graph.kernels.cpu.sssp.fused`: the limit up to which vertices are inner."""
_WORD = 8
DONE, LOST = 2, 3
"""What word `OPERATION` of the control array is at the end, besides `PULL`."""
TURN, BEGUN_S = (FIRST_FREE + k * LINE for k in range(10, 12))
"""Words of the control array: steps that this rank has taken, and when it began."""
LOW, LARGEST = 0, 1
"""Which of a rank's ``ends`` is which."""


class Common(NamedTuple):
    """What all ranks share besides the distances.

    ``counts`` int64 (2, ranks, `COUNTED`) and ``ends`` (2, ranks, 2), of the distances' dtype, are
    what each rank found in a step: its smallest and its largest distance. ``arcs`` int64 (ranks,
    `STAGES`) are those of its rows up to each bound. ``target`` (2, ranks, any) lists vertices of
    others that it improved, as many as its first count says.
    """

    control: IntArray
    counts: IntArray
    ends: AnyArray
    arcs: IntArray
    target: AnyArray


class Own(NamedTuple):
    """What a rank has: rows to push and to pull along, and its state.

    ``inner`` is the wave whose ``first`` vertices are its queue. ``bounds`` and ``following``
    (`STAGES`,) are the stages of the push. ``limits`` (`LIMITS`,), ``ranges`` and ``scratches`` are
    those of `ooc_graph.kernels.cpu.sssp.fused.Answer`.
    """

    out: LightRows
    into: HeadedRows
    wave: Wave
    inner: Wave
    bounds: AnyArray
    following: AnyArray
    limits: AnyArray
    ranges: AnyArray
    scratches: Scratch


class Start(NamedTuple):
    """How a rank begins a search of a graph that has ``vertices``."""

    dealt: Dealt
    waits: Waits
    root: int
    vertices: int
    outset: Outset


def common_in(
    memory: AnyArray, ranks: int, distances: np.dtype[Any], ids: np.dtype[Any]
) -> Common | None:
    """Lay the arrays out in zeroed memory; None if it is too small for the lists of the ranks."""
    sizes = [
        _WORD * words
        for words in (CONTROL_WORDS, 2 * ranks * COUNTED, 2 * ranks * 2, ranks * STAGES)
    ]
    listed = (len(memory) - sum(sizes)) // (2 * ranks * ids.itemsize)
    if listed < 1:
        return None
    sizes.append(2 * ranks * listed * ids.itemsize)
    control, counts, ends, arcs, target = np.split(memory[: sum(sizes)], np.cumsum(sizes)[:-1])
    return Common(
        control.view(np.int64),
        counts.view(np.int64).reshape(2, ranks, COUNTED),
        ends.view(distances)[: 2 * ranks * 2].reshape(2, ranks, 2),
        arcs.view(np.int64).reshape(ranks, STAGES),
        target.view(ids).reshape(2, ranks, listed),
    )


@subroutine
def tell(
    control: Any, common: Any, start: Any, a: int, b: int, c: int, d: int, low: Any, high: Any
) -> bool:
    """Tell all ranks what this one has counted, and wait for them; False if somebody gave up."""
    turn, shard = control[TURN] & 1, start.dealt.shard
    counts, ends = common.counts[turn, shard], common.ends[turn, shard]
    counts[0], counts[1], counts[2], counts[3] = a, b, c, d
    ends[LOW], ends[LARGEST] = low, high
    control[TURN] += 1
    members = common.counts.shape[1]
    if meeting.meet(common.control, control, members, control[BEGUN_S], start.waits):
        return True
    control[OPERATION] = LOST
    return False


@subroutine
def total_of(control: Any, common: Any, number: int) -> int:
    """What all ranks have counted in the step that has ended."""
    turn, total = (control[TURN] - 1) & 1, 0
    for rank in range(common.counts.shape[1]):
        total += common.counts[turn, rank, number]
    return total


@subroutine
def ends_of(control: Any, common: Any) -> tuple[Any, Any]:
    """The smallest and the largest distance that any rank has told in the step that has ended."""
    turn = (control[TURN] - 1) & 1
    least, largest = common.ends[turn, 0, LOW], common.ends[turn, 0, LARGEST]
    for rank in range(1, common.ends.shape[1]):
        least = min(least, common.ends[turn, rank, LOW])
        largest = max(largest, common.ends[turn, rank, LARGEST])
    return least, largest
