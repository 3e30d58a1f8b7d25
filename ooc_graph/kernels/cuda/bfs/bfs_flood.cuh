// BFS top-down for frontiers of very many arcs. Every arc lowers a parent, and nothing else: which
// rows have been found is seen afterwards, in order. Parents must be high before: all are cleared.
#pragma once
#include "bfs_push.cuh"

// Arcs of one row that a lane looks at together.
#define FLOOD_TURNS 4

// Parents of all rows not visited become NONE.
__device__ __forceinline__ void raise_parents(const Graph& g, const Search& s) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 at = thread; at < g.quads * 32; at += threads) {
        const u32 quad = at / 32;
        const u32 seen = four_of(__ldcg((const uint4*)s.visited + quad));
        if (!seen) ((uint4*)s.parent)[at] = make_uint4(NONE, NONE, NONE, NONE);
        else
            for (u32 j = 0; j < 4; j++)
                if (!(seen >> j & 1)) s.parent[at * 4 + j] = NONE;
    }
}

// Takes down the parents of rows visited so far, all of which stand in queue[0:tail), by their
// names, behind the starts of the queue. They are 0 until the flood is over, so that none lowers
// them; those of all other rows are NONE.
__device__ __noinline__ void clear_parents(const Graph g, const Search s, u32 converted, u32 tail) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 i = thread; i < tail; i += threads) {
        const u32 v = __ldcg(s.queue.rows + i), parent = __ldcg(s.parent + v);
        s.queue.starts[tail + i] = i < converted ? parent : name_of(g, parent);
        s.parent[v] = 0;
    }
    raise_parents(g, s);
}

// Goes through the arcs of queue[head:tail), an even share for every warp: `step(from, to)` with the
// neighbours of one row, as many as fit an array, `to` being NONE if a lane has none.
template <typename Step>
__device__ __forceinline__ void over_long_rows(const Graph& g, const Search& s, u32 head, u32 tail, u32 arcs, Step step) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32, share = ((arcs + warps - 1) / warps + 127) / 128 * 128;
    const u64 low = (u64)warp * share;
    if (low >= arcs) return;
    const u32 stop = (u32)min(low + share, (u64)arcs), count = tail - head;
    const u32* const starts = s.queue.starts + head;
    u32 i = entry_of(starts, count, (u32)low), a = (u32)low;
    while (a < stop) {
        // 32 arcs meet at most 32 entries behind the current one.
        const u32 after = i + 1 + lane;
        const u32 next = after < count ? __ldcg(starts + after) : arcs;
        const u32 end = min(__shfl_sync(FULL, next, 0), stop);
        if (end >= a + 64) { // one row
            const u32 from = __ldcg(s.queue.rows + head + i), start = __ldcg(starts + i);
            const u32* const row = OUT_ARCS(g, from) + __ldg(g.out_offsets + from) - start;
            for (; a < end; a += 32 * FLOOD_TURNS) {
                u32 to[FLOOD_TURNS];
#pragma unroll
                for (u32 k = 0; k < FLOOD_TURNS; k++)
                    to[k] = a + 32 * k + lane < end ? __ldg(row + a + 32 * k + lane) : NONE;
                step(from, to);
            }
            a = end;
            i++; // at the share's end it does not matter
            continue;
        }
        const u32 mine = a + lane, rank = rank_in_warp(next, mine), entry = i + rank;
        if (mine < stop) {
            const u32 from = __ldcg(s.queue.rows + head + entry);
            const u64 at = __ldg(g.out_offsets + from) + (mine - __ldcg(starts + entry));
            const bool is_arc = at < __ldg(g.out_offsets + from + 1);
            const u32 to[FLOOD_TURNS] = {is_arc ? __ldg(OUT_ARCS(g, from) + at) : NONE, NONE, NONE, NONE};
            step(from, to);
        }
        i += __shfl_sync(FULL, rank, 31);
        a += 32;
    }
}

// Lowers parents along the arcs of queue[head:tail).
__device__ __noinline__ void flood(const Graph g, const Search s, u32 head, u32 tail, u32 arcs) {
    over_long_rows(g, s, head, tail, arcs, [&](u32 from, const u32 (&to)[FLOOD_TURNS]) {
        u32 parent[FLOOD_TURNS];
#pragma unroll
        for (u32 k = 0; k < FLOOD_TURNS; k++) parent[k] = to[k] != NONE ? __ldcg(s.parent + to[k]) : 0;
#pragma unroll
        for (u32 k = 0; k < FLOOD_TURNS; k++)
            if (parent[k] > from) atomicMin(s.parent + to[k], from);
    });
}

// Enters those of a lane's four rows that have got a parent and had none; returns the bits of the whole
// quad. Whole warps call it.
__device__ __forceinline__ uint4 enter_flooded(const Graph& g, const Search& s, u32 at, uint4 parent, u32 level) {
    const u32 quad = at / 32, levels[4] = {level, level, level, level};
    const uint4 seen = __ldcg((const uint4*)s.visited + quad);
    const u32 open = 15 & ~four_of(seen);
    const bool got[4] = {(open & 1) && parent.x != NONE, (open & 2) && parent.y != NONE,
                         (open & 4) && parent.z != NONE, (open & 8) && parent.w != NONE};
    const u32 mask = got[0] | got[1] << 1 | got[2] << 2 | got[3] << 3;
    const uint4 fresh = make_uint4(__ballot_sync(FULL, got[0]), __ballot_sync(FULL, got[1]),
                                   __ballot_sync(FULL, got[2]), __ballot_sync(FULL, got[3]));
    if (got[0]) parent.x = name_of(g, parent.x);
    if (got[1]) parent.y = name_of(g, parent.y);
    if (got[2]) parent.z = name_of(g, parent.z);
    if (got[3]) parent.w = name_of(g, parent.w);
    if (mask) set_four(s, quad, mask, levels, parent);
    if (threadIdx.x % 32 == 0 && (fresh.x | fresh.y | fresh.z | fresh.w))
        ((uint4*)s.visited)[quad] = both(seen, fresh);
    return fresh;
}

// Finds the rows that have got a parent, and gives visited rows theirs back.
__device__ __noinline__ u64 take_flooded(const Graph g, const Search s, u32* next, u32 tail, u32 level) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    u64 found = 0;
    for (u32 i = thread; i < tail; i += threads)
        s.parent[__ldcg(s.queue.rows + i)] = __ldcg(s.queue.starts + tail + i);
    for (u32 at = thread; at < g.quads * 32; at += threads) {
        const uint4 fresh = enter_flooded(g, s, at, __ldcg((const uint4*)s.parent + at), level);
        if (lane) continue;
        ((uint4*)next)[at / 32] = fresh;
        found += count_of(fresh);
    }
    return found;
}
