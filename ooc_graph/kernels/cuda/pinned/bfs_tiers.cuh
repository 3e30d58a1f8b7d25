// BFS on rows that stand in host memory: what of them is on the device, and what is read over the bus.
#pragma once
#include "bfs_bits.cuh"
#if TIERED

// Neighbours, to be looked up where the offsets of this row say.
#define OUT_ARCS(g, row) (row < g.out_near_rows ? g.out_near : g.out_neighbors)
#define IN_ARCS(g, row) (row < g.in_near_rows ? g.in_near : g.in_neighbors)
// Rows that may have their second to fifth neighbours in a column.
#define ROWS_OF_FOUR(g) (g.columns ? g.longer1 : 0)
// Whether a row may go on behind its first nine neighbours at most, of which these are the last.
#define GOES_ON(g, v, four, last) (g.columns > 1 ? last.w != NONE : g.columns ? four.w != NONE : v != NONE)
// Pieces fill the queue from its end: rows that are not visited yet leave so much room.
#define PIECE_AT(s, at) \
    ((u64)__ldcg(s.queue.rows + s.capacity - 1 - (at)) << 32 | __ldcg(s.queue.starts + s.capacity - 1 - (at)))

// First of a row's neighbours that are in host memory alone.
__device__ __forceinline__ u64 begin_pieces(const Graph& g, u32 v) {
    return __ldg(g.in_offsets + v) + 1 + 4 * g.columns;
}

// Goes along the columns behind a row's first nine neighbours. Returns the first member of the
// frontier; or NONE, and then `more` tells whether the row may go on.
__device__ __forceinline__ u32 scan_columns(const Graph& g, const Front& front, u32 v, bool& more, Tally& tally) {
    auto four_at = [&](u32 k) {
        const uint2 column = k < g.columns ? __ldg(g.column + k) : make_uint2(0, 0);
        return v < column.y ? __ldcs(g.heads + column.x + v) : make_uint4(NONE, NONE, NONE, NONE);
    };
    u32 member = NONE;
    uint4 u = four_at(2);
    more = true;
    for (u32 k = 2; k < g.columns && more && member == NONE; k++) {
        const uint4 ahead = four_at(k + 1); // under way while these are looked at
        member = first_of(front, u, tally);
        more = u.w != NONE;
        u = ahead;
    }
    return member;
}

// What stands behind the first nine neighbours of a row of each lane (NONE: no row): the columns, and
// the rest is left for `pull_long_rows`, with `parent` ready to take the smallest. Returns the first
// member of the frontier, or NONE.
__device__ __forceinline__ u32 scan_tails(const Graph& g, const Search& s, const Front& front, Slot* slot, u32 v,
                                          Tally& tally) {
    u32 member = NONE, count = 0;
    if (v != NONE) {
        bool more;
        member = scan_columns(g, front, v, more, tally);
        const u64 begin = begin_pieces(g, v), end = __ldg(g.in_offsets + v + 1);
        if (member == NONE && more && begin < end) {
            count = (u32)((end - begin + PIECE_ARCS - 1) / PIECE_ARCS);
            s.parent[v] = NONE;
        }
    }
    if (__any_sync(FULL, count)) {
        const u32 at = s.capacity - 1 - take_places<true>(&slot->pieces, count);
        for (u32 k = 0; k < count; k++) {
            s.queue.rows[at - k] = v;
            s.queue.starts[at - k] = k;
        }
    }
    return member;
}
#endif
