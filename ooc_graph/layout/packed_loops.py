"""The loops of `ooc_graph.layout.packing`, compiled; imported where packed numbers first turn up.

They stand here and not among the kernels of searches because reading a chunk is the layout's. No
loop allocates. The inner ones go along lanes side by side, so that they become vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernel_cache import compiled


@compiled
def pack(values: Any, base: Any, mask: Any, words: Any) -> Any:
    """Put the low bits of numbers less ``base`` into words; all the packed numbers, or-ed.

    That is wider than ``bits`` if one of them does not fit. ``values`` are uint32 or uint64
    (blocks, 64, lanes), ``words`` uint64 (blocks, bits, lanes). ``base`` is subtracted modulo
    2**64; ``mask`` has as many ones as the numbers' type has bits, as negative ones come in it.
    """
    blocks, bits, lanes = words.shape
    every = np.uint64(0)
    for block in range(blocks):
        for word in range(bits):
            for lane in range(lanes):
                words[block, word, lane] = np.uint64(0)
        for slot in range(64):
            word, shift = slot * bits >> 6, np.uint64(slot * bits & 63)
            for lane in range(lanes):
                value = np.uint64(values[block, slot, lane]) - base & mask
                every |= value
                words[block, word, lane] |= value << shift
            if shift + np.uint64(bits) > np.uint64(64):
                back = np.uint64(64) - shift
                for lane in range(lanes):
                    value = np.uint64(values[block, slot, lane]) - base & mask
                    words[block, word + 1, lane] |= value >> back
    return every


@compiled
def unpack(words: Any, base: Any, mask: Any, values: Any) -> None:
    """Undo `pack`; any words give numbers of ``bits`` bits.

    As there, but that ``mask`` has as many ones as a packed number has bits; ``base`` is added
    modulo 2**64, of which ``values`` keeps what fits.
    """
    blocks, bits, lanes = words.shape
    for block in range(blocks):
        for slot in range(64):
            word, shift = slot * bits >> 6, np.uint64(slot * bits & 63)
            if shift + np.uint64(bits) > np.uint64(64):
                back = np.uint64(64) - shift
                for lane in range(lanes):
                    low, high = words[block, word, lane], words[block, word + 1, lane]
                    values[block, slot, lane] = ((low >> shift | high << back) & mask) + base
            else:
                for lane in range(lanes):
                    values[block, slot, lane] = (words[block, word, lane] >> shift & mask) + base
