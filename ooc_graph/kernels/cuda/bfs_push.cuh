// BFS top-down: frontiers as queues, parents by an atomic minimum.
#pragma once
#include "bfs_graph.cuh"

// Claims a neighbour for the next level, in the queue or as a bit of `next`; called by whole warps.
template <bool QUEUED>
__device__ __forceinline__ void push_arc(const Graph& g, const Search& s, u32* next, Slot* slot, u32 tail, u32 from,
                                         u32 to, u32 level, Tally& tally) {
    bool won = false;
    if (to != NONE) {
        u32 bit = bit_of(to);
        if (!(__ldcg(s.visited + (to >> 5)) & bit)) won = !(atomicOr(s.visited + (to >> 5), bit) & bit);
    }
    if (won) {
        s.level[to] = (LEVEL)level;
        s.parent[to] = from;
        tally.found++;
        if (!QUEUED) atomicOr(next + (to >> 5), bit_of(to));
    }
    if (QUEUED && __any_sync(FULL, won))
        enter(s.queue, &slot->queued, tail, won, [&](u32) { return to; }, [&](u32) { return out_degree(g, to); });
}

// Takes the smallest of all parents; after all claims of the level.
__device__ __forceinline__ void settle_arc(const Search& s, u32 from, u32 to, u32 level) {
    if (to != NONE && __ldcg(s.level + to) == (LEVEL)level && __ldcg(s.parent + to) > from)
        atomicMin(s.parent + to, from);
}

// Goes through the arcs of the frontier: `arc(from, to)`, `to` being NONE in lanes that have none.
template <typename Arc>
__device__ __forceinline__ void over_frontier(const Graph& g, const Search& s, u32 head, u32 tail, u32 arcs, Arc arc) {
    over_arcs(s.queue, head, tail, arcs, [&](u32 entry, u32 k) {
        u32 from = 0, to = NONE;
        if (entry != NONE) {
            from = __ldcg(s.queue.rows + entry);
            u64 at = __ldg(g.out_offsets + from) + k;
            if (at < __ldg(g.out_offsets + from + 1)) to = __ldg(g.out_neighbors + at);
        }
        arc(from, to);
    });
}

// One level top-down; returns what this thread has found.
__device__ __noinline__ u64 push_level(const Graph g, const Search s, u32* next, Slot* slot, u32 head, u32 tail,
                                       u32 arcs, u32 level) {
    Tally tally = {0, 0};
    if (arcs <= QUEUE_ARCS)
        over_frontier(g, s, head, tail, arcs, [&](u32 from, u32 to) {
            push_arc<true>(g, s, next, slot, tail, from, to, level, tally);
        });
    else
        over_frontier(g, s, head, tail, arcs, [&](u32 from, u32 to) {
            push_arc<false>(g, s, next, slot, tail, from, to, level, tally);
        });
    return tally.found;
}

__device__ __noinline__ void settle_level(const Graph g, const Search s, u32 head, u32 tail, u32 arcs, u32 level) {
    over_frontier(g, s, head, tail, arcs, [&](u32 from, u32 to) { settle_arc(s, from, to, level); });
}

// Parents that a push left as internal ids become original ids.
__device__ __forceinline__ void convert(const Graph& g, const Search& s, u32 vertex) {
    s.parent[vertex] = name_of(g, __ldcg(s.parent + vertex));
}

__device__ __noinline__ void convert_queue(const Graph g, const Search s, u32 begin, u32 end) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 i = begin + thread; i < end; i += threads) convert(g, s, __ldcg(s.queue.rows + i));
}

// Turns the bits of the frontier into queue entries behind `tail`.
__device__ __noinline__ void list_front(const Graph g, const Search s, const u32* front, Slot* slot, u32 tail,
                                           bool internal) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 word = thread; word - thread % 32 < g.quads * 4; word += threads) {
        u32 bits = word < g.quads * 4 ? __ldcg(front + word) : 0;
        if (!__any_sync(FULL, bits != 0)) continue;
        auto vertex = [&](u32 k) { return word * 32 + __fns(bits, 0, k + 1); };
        u32 count = __popc(bits);
        if (internal)
            for (u32 k = 0; k < count; k++) convert(g, s, vertex(k));
        enter(s.queue, &slot->queued, tail, count, vertex, [&](u32 k) { return out_degree(g, vertex(k)); });
    }
}

// Lists the rows not visited yet.
__device__ __noinline__ void list_open(const Graph g, const Search s, Slot* slot, u32* open) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 quad = thread; quad - lane < g.quads; quad += threads) {
        uint4 seen = make_uint4(FULL, FULL, FULL, FULL);
        if (quad < g.quads) seen = __ldcg((const uint4*)s.visited + quad);
        u32 bits[4] = {~seen.x, ~seen.y, ~seen.z, ~seen.w};
        u32 mine = __popc(bits[0]) + __popc(bits[1]) + __popc(bits[2]) + __popc(bits[3]), base = 0;
        if (!__any_sync(FULL, mine)) continue;
        const u32 sum = sum_to_lane(mine);
        if (lane == 31) base = atomicAdd(&slot->open, sum);
        u32 at = __shfl_sync(FULL, base, 31) + sum - mine;
#pragma unroll
        for (int j = 0; j < 4; j++)
            for (u32 rest = bits[j]; rest; rest &= rest - 1) open[at++] = quad * 128 + 32 * j + __ffs(rest) - 1;
    }
}

__device__ __noinline__ void convert_front(const Graph g, const Search s, const u32* front) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 word = thread / 32; word < g.quads * 4; word += threads / 32)
        if (__ldcg(front + word) >> lane & 1) convert(g, s, word * 32 + lane);
}
