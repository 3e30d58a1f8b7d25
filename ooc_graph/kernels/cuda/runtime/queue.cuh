// Queues of rows whose entries know how many arcs stand before them, so that any grid can share the
// arcs out evenly.
#pragma once
#include "grid.cuh"

// More arcs than a device can hold; of rows in host memory a plan refuses as many of a side.
#define ARC_BITS 36
#define ARC_MASK ((1ull << ARC_BITS) - 1)
// Entries that may stand behind one `tail`: the bits that arcs leave.
#ifndef MOST_ENTRIES
#define MOST_ENTRIES ((1u << (64 - ARC_BITS)) - 1)
#endif
// Arcs that may be shared out: with all warps' rounding the numbers of arcs still fit 32 bits.
#ifndef MOST_SHARED_ARCS
#define MOST_SHARED_ARCS (0u - (1u << 20))
#endif

__device__ __forceinline__ u32 bit_of(u32 vertex) { return 1u << (vertex & 31); }

template <typename Graph>
__device__ __forceinline__ u64 out_degree(const Graph& g, u32 vertex) {
    return __ldg(g.out_offsets + vertex + 1) - __ldg(g.out_offsets + vertex);
}

struct Queue {
    u32* rows;
    u32* starts; // arcs before an entry, since the beginning of its piece of the queue
};

// Enters `count` rows of each lane behind `tail`: the k-th is `row(k)`, of which `arcs(k)` arcs count.
// An entry without arcs counts as one, so that each has a place of its own. `taken` holds entries
// << ARC_BITS and arcs. All lanes of a warp call it.
template <typename Row, typename Arcs>
__device__ __forceinline__ void enter(const Queue& queue, u64* taken, u32 tail, u32 count, Row row, Arcs arcs) {
    u64 mine = (u64)count << ARC_BITS;
    for (u32 k = 0; k < count; k++) mine += max(arcs(k), 1ull);
    const u64 at = take_places(taken, mine);
    u32 entry = tail + (u32)(at >> ARC_BITS);
    u64 start = at & ARC_MASK;
    for (u32 k = 0; k < count; k++) {
        queue.rows[entry + k] = row(k);
        queue.starts[entry + k] = (u32)start; // pieces with 2**32 arcs are not gone through
        if (k + 1 < count) start += max(arcs(k), 1ull);
    }
}

// Last entry of ascending starts[0:count) that is not above `arc`, by one warp; starts[0] is 0.
__device__ __forceinline__ u32 entry_of(const u32* starts, u32 count, u32 arc) {
    u32 low = 0, lane = threadIdx.x % 32;
    while (count > 1) {
        u32 step = (count + 31) / 32, at = lane * step;
        u32 below = __ballot_sync(FULL, at < count && __ldcg(starts + low + at) <= arc);
        u32 part = 31 - __clz(below);
        low += part * step;
        count = min(step, count - part * step);
    }
    return low;
}

// How many of the lanes' ascending values are not above `value`; whole warps call it.
__device__ __forceinline__ u32 rank_in_warp(u32 ascending, u32 value) {
    u32 rank = 0;
#pragma unroll
    for (int half = 16; half; half >>= 1)
        if (__shfl_sync(FULL, ascending, rank + half - 1) <= value) rank += half;
    if (__shfl_sync(FULL, ascending, 31) <= value) rank = 32;
    return rank;
}

// Goes through `arcs` arcs of queue[begin:end), an even share for every warp of the grid, 32 at a
// time: `arc(entry, k)` is the k-th arc of an entry, `entry` being NONE in lanes that have none.
template <typename Arc>
__device__ __forceinline__ void over_arcs(const Queue& queue, u32 begin, u32 end, u32 arcs, Arc arc) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32, share = ((arcs + warps - 1) / warps + 31) / 32 * 32;
    const u64 low = (u64)warp * share;
    if (low >= arcs) return;
    const u32 stop = (u32)min(low + share, (u64)arcs), count = end - begin;
    u32 i = entry_of(queue.starts + begin, count, (u32)low);
    for (u32 a = (u32)low; a < stop; a += 32) {
        // 32 arcs meet at most 32 entries behind the current one.
        u32 after = i + 1 + lane, mine = a + lane;
        u32 start = after < count ? __ldcg(queue.starts + begin + after) : NONE;
        u32 rank = rank_in_warp(start, mine), entry = begin + i + rank;
        bool real = mine < stop;
        u32 k = real ? mine - __ldcg(queue.starts + entry) : 0;
        i += __shfl_sync(FULL, rank, 31);
        arc(real ? entry : NONE, k);
    }
}

__device__ __forceinline__ void clear(u32* words, u32 quads) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 q = thread; q < quads; q += threads) ((uint4*)words)[q] = make_uint4(0, 0, 0, 0);
}
