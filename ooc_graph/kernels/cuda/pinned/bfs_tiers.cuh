// BFS on rows that stand in host memory: what of them is on the device, and what is read over the bus.
#pragma once
#include "bfs_graph.cuh"
#if TIERED

// Neighbours, to be looked up where the offsets of this row say.
#define OUT_ARCS(g, row) (row < g.out_held_rows ? g.out_held : g.out_neighbors)
#define IN_ARCS(g, row) (row < g.in_held_rows ? g.in_held : g.in_neighbors)
// Rows that may have their second to fifth neighbours in a column.
#define ROWS_OF_FOUR(g) (g.columns ? g.longer1 : 0)
// Whether a row may go on behind its first nine neighbours at most, of which these are the last.
#define GOES_ON(g, v, four, last) (g.columns > 1 ? last.w != NONE : g.columns ? four.w != NONE : v != NONE)
// Stretches fill the queue from its end: rows that are not visited yet leave so much room.
#define STRETCH_AT(s, at) \
    ((u64)__ldcg(s.queue.rows + s.room - 1 - (at)) << 32 | __ldcg(s.queue.starts + s.room - 1 - (at)))

// First of a row's neighbours that are in host memory alone.
__device__ __forceinline__ u64 begin_outside(const Graph& g, u32 v) {
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
// the rest is left for `pull_outside`, with `parent` ready to take the smallest. Returns the first
// member of the frontier, or NONE.
__device__ __forceinline__ u32 scan_tails(const Graph& g, const Search& s, const Front& front, Slot* slot, u32 v,
                                          Tally& tally) {
    u32 member = NONE, count = 0;
    if (v != NONE) {
        bool more;
        member = scan_columns(g, front, v, more, tally);
        const u64 begin = begin_outside(g, v), end = __ldg(g.in_offsets + v + 1);
        if (member == NONE && more && begin < end) {
            count = (u32)((end - begin + STRETCH - 1) / STRETCH);
            s.parent[v] = NONE;
        }
    }
    if (__any_sync(FULL, count)) {
        const u32 sum = sum_to_lane(count);
        u32 base = 0;
        if (threadIdx.x % 32 == 31) base = atomicAdd(&slot->stretches, sum);
        const u32 at = s.room - 1 - (__shfl_sync(FULL, base, 31) + sum - count);
        for (u32 k = 0; k < count; k++) {
            s.queue.rows[at - k] = v;
            s.queue.starts[at - k] = k;
        }
    }
    return member;
}

// The stretches of rows outside, a warp each, whole lines of memory at a time; the smallest member of
// the frontier counts.
__device__ __noinline__ Tally pull_stretches(const Graph g, const Search s, const Front front, u32 count) {
    Tally tally = {};
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    u64 item = warp < count ? STRETCH_AT(s, warp) : 0;
    for (u32 i = warp; i < count; i += warps) {
        const u64 after = i + warps < count ? STRETCH_AT(s, i + warps) : item;
        const u32 v = (u32)(item >> 32);
        const u64 begin = begin_outside(g, v) + (item & NONE) * (u64)STRETCH;
        const u64 end = min(begin + STRETCH, __ldg(g.in_offsets + v + 1));
        const u32* const arcs = IN_ARCS(g, v);
        const u32 best = __shfl_sync(FULL, __ldcg(s.parent + v), 0); // one value for all lanes
        u32 member = NONE;
        for (u64 at = begin / 32 * 32; at < end && member == NONE; at += 128) {
            u32 u[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const u64 mine = at + 32 * k + lane;
                u[k] = mine >= begin && mine < end ? __ldg(arcs + mine) : NONE;
            }
            BUS_ONLY(if (v >= g.in_held_rows) ask_span(max(at, begin), min(at + 128, end));)
            const u32 least = __shfl_sync(FULL, u[0], at < begin ? (u32)(begin - at) : 0);
            if (best < least) break; // an earlier stretch has it
#pragma unroll
            for (int k = 3; k >= 0; k--) {
                const u32 hits = __ballot_sync(FULL, holds(front, u[k]));
#ifdef COUNT
                tally.examined += u[k] != NONE;
#endif
                if (hits) member = __shfl_sync(FULL, u[k], __ffs(hits) - 1);
            }
        }
        if (member != NONE && lane == 0) atomicMin(s.parent + v, member);
        if (lane == 0) prefetch(g.in_offsets + (after >> 32));
        item = after;
    }
    return tally;
}
#endif
