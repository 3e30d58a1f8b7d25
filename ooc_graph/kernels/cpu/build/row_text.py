"""Text with one vertex per line (METIS, adjacency lists) to columns, in blocks of bytes.

A row of a hub can be longer than any buffer, so the text is cut between any two tokens and the
place in the line travels in a state vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.kernels.common.compiled import inlined, kernel
from ooc_graph.kernels.cpu.build import decimals
from ooc_graph.types import AnyArray

# Positions in the parameter vector.
R_NUMBERED, R_SKIP, R_PAIRED, R_WEIGHT_MODE, R_ID_FIRST, R_ID_LAST = 0, 1, 2, 3, 4, 5

# Positions in the state vector.
S_VERTEX, S_FIELD, S_COMMENT, S_AFTER_CR, S_LINE, S_NEIGHBOR, S_LOOPS = 0, 1, 2, 3, 4, 5, 6
STATES = 7


@kernel
def mirror_sum(
    source: NDArray[np.int64], target: NDArray[np.int64], weight: NDArray[np.float64]
) -> np.uint64:
    """Sum modulo 2**64 over entries that is 0 where each is there in both directions.

    An entry (u, v, w) adds a hash of (min, max, w), taken away where u > v; loops add nothing.
    Sums of parts may be added in any order. A file that is wrong passes with a chance of about
    2**-64. ``weight`` is (0,) if there are no weights.
    """
    total = np.uint64(0)
    bits = weight.view(np.uint64)
    for entry in range(source.size):
        u, v = source[entry], target[entry]
        if u == v:
            continue
        mixed = _scatter(np.uint64(min(u, v)))
        mixed = _scatter(mixed ^ np.uint64(max(u, v)))
        if bits.size:
            mixed = _scatter(mixed ^ bits[entry])
        total = total + mixed if u < v else total - mixed
    return total


@inlined
def _scatter(word: Any) -> Any:
    """Finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): each bit changes half of them."""
    word += np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel
def tokenize_rows(
    text: NDArray[np.uint8],
    start: int,
    stop: int,
    parameters: NDArray[np.int64],
    state: NDArray[np.int64],
    columns: tuple[AnyArray, ...],
    heads: NDArray[np.int64],
) -> tuple[int, int, int, int, int, bool]:
    """Read tokens of ``text[start:stop]`` until one of the outputs is full.

    ``stop`` follows a blank, a line end or the end of the text. ``state`` says where the text
    before ``start`` ended; it is changed. With ``R_NUMBERED`` 1 (METIS), line k is vertex
    ``R_ID_FIRST + k``, its first ``R_SKIP`` numbers are no neighbours, and with ``R_PAIRED`` each
    neighbour is followed by its weight. With 0, the first number of a line is its vertex, listed in
    ``heads``, and with ``R_PAIRED`` neighbours are written ``id,weight``. The ``columns`` are
    source, target, integers, doubles and slow of ``tokenize_lines``.

    Returns rows, heads, next byte, status, slow rows, and whether all weights are integers. With a
    status other than OK, the line at fault is ``state[S_LINE]``.
    """
    source, target, _, _, slow = columns
    numbered, paired = parameters[R_NUMBERED] == 1, parameters[R_PAIRED] == 1
    skip, mode = parameters[R_SKIP], parameters[R_WEIGHT_MODE]
    first, last = parameters[R_ID_FIRST], parameters[R_ID_LAST]
    rows, found, slow_rows, all_integer = 0, 0, 0, True
    at, status = start, decimals.OK
    while (
        at < stop
        and status == decimals.OK
        and rows < source.size
        and slow_rows < slow.shape[0]
        and found < heads.size
    ):
        byte = text[at]
        if state[S_COMMENT] == 1:
            if byte == 10:
                state[S_COMMENT] = 0
                state[S_LINE] += 1
            at += 1
            continue
        if state[S_AFTER_CR] == 1 and byte != 10 and byte != 13:
            status = decimals.LONE_CR
            break
        state[S_AFTER_CR] = 1 if byte == 13 else 0
        if byte == 10:
            if state[S_NEIGHBOR] >= 0:
                status = decimals.BAD_WEIGHT
                break
            if numbered and state[S_VERTEX] <= last:
                if state[S_FIELD] < skip:
                    status = decimals.FEW_FIELDS
                    break
                state[S_VERTEX] += 1
            state[S_FIELD] = 0
            state[S_LINE] += 1
            at += 1
            continue
        if byte == 32 or byte == 9 or byte == 13:
            at += 1
            continue
        if byte < 32:
            status = decimals.CONTROL_BYTE
            break
        if state[S_FIELD] == 0 and (byte == 37 or byte == 35):
            state[S_COMMENT] = 1
            continue
        end = at
        comma = -1
        while end < stop and text[end] > 32:
            if text[end] == 44 and comma < 0:
                comma = end
            end += 1
        weight_from, weight_to = 0, 0
        edge = False
        neighbor = np.int64(-1)
        if numbered:
            if state[S_VERTEX] > last:
                status = decimals.MANY_LINES
            elif state[S_FIELD] < skip:
                status, _, _, _ = decimals.read_weight(text, at, end, decimals.WEIGHT_FLOAT)
            elif state[S_NEIGHBOR] >= 0:
                neighbor = state[S_NEIGHBOR]
                weight_from, weight_to, edge = at, end, True
                state[S_NEIGHBOR] = -1
            else:
                status, neighbor = decimals.read_id(text, at, end, first, last)
                edge = not paired
                if status == decimals.OK and paired:
                    state[S_NEIGHBOR] = neighbor
        elif state[S_FIELD] == 0:
            status, state[S_VERTEX] = decimals.read_id(text, at, end, first, last)
            if status == decimals.OK:
                heads[found] = state[S_VERTEX]
                found += 1
        elif paired:
            if comma < 0:
                status = decimals.BAD_WEIGHT
            else:
                status, neighbor = decimals.read_id(text, at, comma, first, last)
                weight_from, weight_to, edge = comma + 1, end, True
        else:
            status, neighbor = decimals.read_id(text, at, end, first, last)
            edge = True
        if status == decimals.OK and edge and mode != decimals.WEIGHT_NONE:
            status, slow_rows, is_integer = decimals.put_weight(
                text, weight_from, weight_to, mode, rows, columns[2:], slow_rows
            )
            all_integer &= is_integer
        if status == decimals.OK:
            if edge:
                source[rows] = state[S_VERTEX]
                target[rows] = neighbor
                state[S_LOOPS] += 1 if neighbor == state[S_VERTEX] else 0
                rows += 1
            state[S_FIELD] += 1
            at = end
    return rows, found, at, status, slow_rows, all_integer
