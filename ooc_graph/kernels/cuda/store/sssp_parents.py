"""Parents from final distances on a CUDA device, with most arcs in a store."""

from __future__ import annotations

import numpy as np

from ooc_graph.kernels.cuda.runtime.steps import EXAMINED, LISTED
from ooc_graph.kernels.cuda.store.sssp_state import DiskState, bits_of

_NONE = np.uint32(0xFFFFFFFF)


def find_parents(state: DiskState, root: int, floor: np.float32) -> int:
    """Find the parents of all that is reached, those on plateaus last; arcs examined.

    Distances are final. The few rows that the state keeps are nearer to the root than all others,
    if they are nearer than ``floor``, a lower bound of the others' distances: whoever finds a
    parent among them needs no other. If the graph's out- and in-arcs contradict each other, that is
    an `AssertionError`.
    """
    out, into, read = state.out, state.into, (state.distance, state.parent)
    state.parent.fill(_NONE)
    examined, least = 0, bits_of(floor)
    if state.few:
        state.clear()
        state.over_few("offer_rows", out.heads.addresses, least, *read, state.more)
        examined += state.go_on(out, "offer_arcs", *read)[EXAMINED]
    state.parent[root : root + 1].fill(np.uint32(root))
    state.clear()
    state.over_rows("parent_rows", into.heads.addresses, least, *read, state.more)
    examined += state.go_on(into, "parent_arcs", least, *read)[EXAMINED]
    return examined + _resolve_plateaus(state)


def _resolve_plateaus(state: DiskState) -> int:
    """Find the parents that ways of weight zero lead to, hop by hop; arcs examined."""
    lacking, found, into = state.nearer, state.waiting, state.into
    state.clear()
    state.over_rows("note_lacking", state.distance, state.parent, lacking)
    left = state.counts()[LISTED]
    if not left:
        return 0
    state.clear()
    given = into.heads.addresses, state.distance, state.parent, state.more
    state.over_words("plateau_rows", lacking, *given, lanes=32)
    taken = state.go_on(into, "plateau_arcs", state.distance, lacking, state.parent)
    examined = taken[EXAMINED]
    state.clear()
    state.over_words("take_found", lacking, state.parent, found, lanes=32)
    hop = state.counts()[LISTED]
    state.next.fill(0)
    # Only those found in the hop before can be parents now, so these are offered.
    while hop:
        left -= hop
        examined += _spread(state)
        state.clear()
        state.over_words("settle_hop", lacking, found, state.next)
        hop = state.counts()[LISTED]
    if left:
        raise AssertionError(f"{left} reached vertices have no parent")
    return examined


def _spread(state: DiskState) -> int:
    """Offer the rows found last to those behind them; arcs examined."""
    out, given = state.out, (state.distance, state.nearer, state.parent, state.next)
    state.clear()
    heads = state.waiting, out.heads.addresses
    state.over_words("spread_rows", *heads, *given, state.more, lanes=32)
    return state.go_on(out, "spread_arcs", *given)[EXAMINED]
