// BFS top-down: frontiers as queues, parents by an atomic minimum.
#pragma once
#include "bfs_tiers.cuh"

// Arcs that a lane looks at together.
#define PUSH_TURNS 4

// Goes through the arcs of queue[head:tail), an even share for every warp, PUSH_TURNS a lane at a
// time: `step(from, to)`, `to` being NONE where a lane has none. Called by whole warps.
template <typename Step>
__device__ __forceinline__ void over_frontier(const Graph& g, const Search& s, u32 head, u32 tail, u32 arcs,
                                              Step step) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32, share = ((arcs + warps - 1) / warps + 31) / 32 * 32;
    const u64 low = (u64)warp * share;
    if (low >= arcs) return;
    const u32 stop = (u32)min(low + share, (u64)arcs), count = tail - head;
    const u32* const starts = s.queue.starts + head;
    u32 i = entry_of(starts, count, (u32)low);
    for (u32 a = (u32)low; a < stop; a += 32 * PUSH_TURNS) {
        u32 entry[PUSH_TURNS], from[PUSH_TURNS], to[PUSH_TURNS];
        u64 at[PUSH_TURNS], end[PUSH_TURNS];
#pragma unroll
        for (u32 j = 0; j < PUSH_TURNS; j++) {
            // 32 arcs meet at most 32 entries behind the current one.
            const u32 after = i + 1 + lane, mine = a + 32 * j + lane;
            const u32 rank = rank_in_warp(after < count ? __ldcg(starts + after) : NONE, mine);
            entry[j] = mine < stop ? head + i + rank : NONE;
            i += __shfl_sync(FULL, rank, 31);
        }
#pragma unroll
        for (u32 j = 0; j < PUSH_TURNS; j++) {
            from[j] = entry[j] != NONE ? __ldcg(s.queue.rows + entry[j]) : 0;
            at[j] = entry[j] != NONE ? a + 32 * j + lane - __ldcg(s.queue.starts + entry[j]) : 0;
        }
#pragma unroll
        for (u32 j = 0; j < PUSH_TURNS; j++) {
            at[j] += __ldg(g.out_offsets + from[j]);
            end[j] = entry[j] != NONE ? __ldg(g.out_offsets + from[j] + 1) : 0;
        }
#pragma unroll
        for (u32 j = 0; j < PUSH_TURNS; j++) to[j] = at[j] < end[j] ? __ldg(OUT_ARCS(g, from[j]) + at[j]) : NONE;
        step(from, to);
    }
}

// Claims neighbours for the next level.
__device__ __forceinline__ void push_arcs(const Graph& g, const Search& s, Slot* slot, u32 tail,
                                          const u32 (&from)[PUSH_TURNS], const u32 (&to)[PUSH_TURNS], u32 level,
                                          u64& found) {
    u32 word[PUSH_TURNS];
    u64 arcs[PUSH_TURNS], mine = 0;
    bool won[PUSH_TURNS];
#pragma unroll
    for (u32 j = 0; j < PUSH_TURNS; j++) word[j] = to[j] != NONE ? __ldcg(s.visited + word_at(to[j])) : FULL;
#pragma unroll
    for (u32 j = 0; j < PUSH_TURNS; j++)
        if (!(word[j] & bit_at(to[j]))) word[j] = atomicOr(s.visited + word_at(to[j]), bit_at(to[j]));
#pragma unroll
    for (u32 j = 0; j < PUSH_TURNS; j++) {
        won[j] = !(word[j] & bit_at(to[j]));
        arcs[j] = won[j] ? max(out_degree(g, to[j]), 1ull) | 1ull << ARC_BITS : 0;
        if (won[j]) set_found(s, to[j], level, from[j]);
        found += won[j];
    }
#pragma unroll
    for (u32 j = 0; j < PUSH_TURNS; j++) mine += arcs[j];
    if (!__any_sync(FULL, mine != 0)) return;
    u64 before = take_places<true>(&slot->queued, mine);
#pragma unroll
    for (u32 j = 0; j < PUSH_TURNS; j++)
        if (won[j]) {
            const u32 entry = tail + (u32)(before >> ARC_BITS);
            s.queue.rows[entry] = to[j];
            s.queue.starts[entry] = (u32)(before & ARC_MASK);
            before += arcs[j];
        }
}

// One level top-down; returns what this thread has found.
__device__ __noinline__ u64 push_level(const Graph g, const Search s, Slot* slot, u32 head, u32 tail, u32 arcs,
                                       u32 level) {
    u64 found = 0;
    over_frontier(g, s, head, tail, arcs, [&](const u32 (&from)[PUSH_TURNS], const u32 (&to)[PUSH_TURNS]) {
        push_arcs(g, s, slot, tail, from, to, level, found);
    });
    return found;
}

// Takes the smallest of all parents; after all claims of the level.
__device__ __noinline__ void settle_level(const Graph g, const Search s, u32 head, u32 tail, u32 arcs, u32 level) {
    over_frontier(g, s, head, tail, arcs, [&](const u32 (&from)[PUSH_TURNS], const u32 (&to)[PUSH_TURNS]) {
        bool own[PUSH_TURNS];
        u32 parent[PUSH_TURNS];
#pragma unroll
        for (u32 j = 0; j < PUSH_TURNS; j++) own[j] = to[j] != NONE && __ldcg(s.level + to[j]) == (LEVEL)level;
#pragma unroll
        for (u32 j = 0; j < PUSH_TURNS; j++) parent[j] = own[j] ? __ldcg(s.parent + to[j]) : 0;
#pragma unroll
        for (u32 j = 0; j < PUSH_TURNS; j++)
            if (parent[j] > from[j]) atomicMin(s.parent + to[j], from[j]);
    });
}

// Parents that a push left as internal ids become original ids.
__device__ __forceinline__ void convert(const Graph& g, const Search& s, u32 vertex) {
    s.parent[vertex] = name_of(g, __ldcg(s.parent + vertex));
}

__device__ __noinline__ void convert_queue(const Graph g, const Search s, u32 begin, u32 end) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 i = begin + thread; i < end; i += threads) convert(g, s, __ldcg(s.queue.rows + i));
}

// Turns the bits of the frontier into queue entries behind `tail`, by way of the buffer.
__device__ __noinline__ void list_front(const Graph g, const Search s, const u32* front, Slot* slot, u32 tail) {
    WarpBuffer& buffer = own_buffer();
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 first = thread - lane; first < g.quads * 4; first += threads) {
        const u32 bits = first + lane < g.quads * 4 ? __ldcg(front + front_word(g, first + lane)) : 0;
        const u32 sum = sum_to_lane((u32)__popc(bits)), total = __shfl_sync(FULL, sum, 31);
        u32 at = sum - __popc(bits);
        for (u32 rest = bits; rest; rest &= rest - 1) buffer.rows[at++] = lane * 32 + __ffs(rest) - 1;
        __syncwarp();
        for (u32 k = lane; k - lane < total; k += 32) {
            const u32 row = k < total ? vertex_at(first + buffer.rows[k] / 32, buffer.rows[k] % 32) : NONE;
            enter(s.queue, &slot->queued, tail, k < total, [&](u32) { return row; },
                  [&](u32) { return out_degree(g, row); });
        }
        __syncwarp();
    }
}
