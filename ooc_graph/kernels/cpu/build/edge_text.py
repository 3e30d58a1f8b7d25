"""Text with one edge per line to columns, in blocks of bytes.

The kernel reads a buffer of whole lines and fills id and weight columns. It stops at the first
line that breaks a rule and says where, so that the caller counts lines only when something is
wrong. Doubles that ``build.decimals`` leaves open go back as byte ranges for Python's ``float``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.cpu.build import decimals
from ooc_graph.types import AnyArray, IntArray

# Positions in the parameter vector of ``tokenize_lines``.
P_DELIMITER, P_COMMENT, P_COMMENT_TOO, P_TAG, P_FIELDS = 0, 1, 2, 3, 4
P_SOURCE, P_TARGET, P_WEIGHT, P_WEIGHT_MODE = 5, 6, 7, 8
P_ID_FIRST, P_ID_LAST = 9, 10
PARAMETERS = 11


@kernel
def tokenize_lines(
    text: NDArray[np.uint8],
    start: int,
    stop: int,
    parameters: IntArray,
    columns: tuple[AnyArray, ...],
) -> tuple[int, int, int, int, bool]:
    """Read lines of ``text[start:stop]`` until the columns or ``slow`` are full.

    ``stop`` follows a line feed or is the end of the text. Of the ``P_*`` parameters delimiter 0
    means runs of spaces and tabs, comment and tag 0 mean none, weight field -1 means none; ids
    outside ``[P_ID_FIRST, P_ID_LAST]`` are refused. Columns are source and target, int64 (rows,);
    integers and doubles, int64 and float64 (rows,), or (1,) if the weight mode has no use for them;
    and slow ones, int64 (k, 3): rows whose double the caller has to find, as (row, from byte, to
    byte). In mode ``WEIGHT_EITHER`` integers and doubles are filled; the integers mean nothing once
    the last entry of the result is False.

    Returns rows, next byte, status, slow rows, and whether all weights are integers. With a status
    other than OK, the next byte is the start of the line at fault.
    """
    source, target, _, _, slow = columns
    delimiter = parameters[P_DELIMITER]
    comment, comment_too = parameters[P_COMMENT], parameters[P_COMMENT_TOO]
    tag, fields = parameters[P_TAG], parameters[P_FIELDS]
    source_field, target_field = parameters[P_SOURCE], parameters[P_TARGET]
    weight_field, mode = parameters[P_WEIGHT], parameters[P_WEIGHT_MODE]
    first, last = parameters[P_ID_FIRST], parameters[P_ID_LAST]
    rows, slow_rows, all_integer = 0, 0, True
    line = start
    while line < stop and rows < source.size and slow_rows < slow.shape[0]:
        at = line
        while at < stop and (text[at] == 32 or (text[at] == 9 and delimiter != 9)):
            at += 1
        # Blank lines and comments.
        empty = at < stop and (text[at] == 10 or text[at] == 13)
        if empty:
            while at < stop and text[at] == 13:
                at += 1
            if at < stop and text[at] != 10:
                return rows, line, decimals.LONE_CR, slow_rows, all_integer
        elif at < stop and (text[at] == comment or text[at] == comment_too):
            empty = True
            while at < stop and text[at] != 10:
                at += 1
        if empty or at >= stop:
            line = at + 1
            continue
        if tag != 0:
            after = at + 1
            if text[at] != tag or after >= stop or (text[after] != 32 and text[after] != 9):
                return rows, line, decimals.BAD_TAG, slow_rows, all_integer
            at = after
            while at < stop and (text[at] == 32 or text[at] == 9):
                at += 1
        field = 0
        more = True
        while more:
            # One field: text[begin:end].
            begin = at
            if delimiter == 0:
                while at < stop and text[at] > 32:
                    at += 1
                end = at
                while at < stop and (text[at] == 32 or text[at] == 9):
                    at += 1
                # Nothing below a blank begins a field, so each turn of the loop takes a byte.
                more = at < stop and text[at] > 32
                if at < stop and not more and text[at] != 10 and text[at] != 13:
                    return rows, line, decimals.CONTROL_BYTE, slow_rows, all_integer
            else:
                while at < stop and (text[at] == 32 or (text[at] == 9 and delimiter != 9)):
                    at += 1
                begin = at
                if at < stop and text[at] == 34:
                    at += 1
                    begin = at
                    while at < stop and text[at] != 10:
                        if text[at] == 34:
                            if at + 1 < stop and text[at + 1] == 34:
                                at += 1
                            else:
                                break
                        at += 1
                    if at >= stop or text[at] == 10:
                        return rows, line, decimals.OPEN_QUOTE, slow_rows, all_integer
                    end = at
                    at += 1
                    while at < stop and (text[at] == 32 or (text[at] == 9 and delimiter != 9)):
                        at += 1
                    if at < stop and text[at] != delimiter and text[at] != 10 and text[at] != 13:
                        return rows, line, decimals.OPEN_QUOTE, slow_rows, all_integer
                else:
                    while at < stop:
                        byte = text[at]
                        # Most bytes are digits, and no delimiter is one.
                        if byte - np.uint8(48) > 9 and (
                            byte == delimiter or byte == 10 or byte == 13
                        ):
                            break
                        at += 1
                    end = at
                    while end > begin and (text[end - 1] == 32 or text[end - 1] == 9):
                        end -= 1
                more = at < stop and text[at] == delimiter
                if more:
                    at += 1
            status = decimals.OK
            if field == source_field:
                status, source[rows] = decimals.read_id(text, begin, end, first, last)
            elif field == target_field:
                status, target[rows] = decimals.read_id(text, begin, end, first, last)
            elif field == weight_field:
                status, slow_rows, is_integer = decimals.put_weight(
                    text, begin, end, mode, rows, columns[2:], slow_rows
                )
                all_integer &= is_integer
            if status != decimals.OK:
                return rows, line, status, slow_rows, all_integer
            field += 1
        while at < stop and text[at] == 13:
            at += 1
        if at < stop and text[at] != 10:
            return rows, line, decimals.LONE_CR, slow_rows, all_integer
        if field < fields:
            return rows, line, decimals.FEW_FIELDS, slow_rows, all_integer
        if field > fields:
            return rows, line, decimals.MANY_FIELDS, slow_rows, all_integer
        line = at + 1
        rows += 1
    return rows, min(line, stop), decimals.OK, slow_rows, all_integer
