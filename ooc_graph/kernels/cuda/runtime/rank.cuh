// What the steps of one rank of many share: rows dealt to shards, lists, arcs shared out evenly.
// Compiled for one width of ids. Rows of one shard are numbered in 32 bits whatever the width.
#pragma once
#include "grid.cuh"
#include "near.cuh"

#ifndef VERTEX
#define VERTEX u32
#endif
#define NO_VERTEX ((VERTEX)~(VERTEX)0)

// Whether arcs are in host memory, and only the first of each row on the device too.
#ifndef TIERED
#define TIERED 0
#endif

// Blocks of 1,024 ids are dealt to the shards in turn. There are fewer than 2**32 of them.
#define DEAL_BITS 10
#define DEAL_MASK ((1u << DEAL_BITS) - 1)
// Arcs that a warp takes at a time.
#define SHARE_ARCS 256u
// Arcs of a row that a lane looks at before the whole warp does.
#define LANE_ARCS 8u

// Words of `counts`.
enum Count { LISTED, KEPT, ARCS, EXAMINED, EMITTED, AGAIN, LEAST };

__device__ __forceinline__ u32 block_of(VERTEX vertex) { return (u32)(vertex >> DEAL_BITS); }

__device__ __forceinline__ VERTEX internal_of(u32 row, u32 shards, u32 shard) {
    return (VERTEX)((row >> DEAL_BITS) * shards + shard) << DEAL_BITS | (row & DEAL_MASK);
}

__device__ __forceinline__ u32 local_of(VERTEX vertex, u32 shards) {
    return block_of(vertex) / shards << DEAL_BITS | ((u32)vertex & DEAL_MASK);
}

__device__ __forceinline__ bool is_mine(VERTEX vertex, u32 shards, u32 shard) {
    return block_of(vertex) % shards == shard;
}

// A column of the rows' arcs, as kernels are given it, and of it the arcs of one row, which are found
// by their position among all.
#if TIERED
template <typename Word>
struct Tiered {
    const Word* held;    // on the device
    const Word* outside; // in host memory
    const u32* starts;   // as of `near_of`
    const u64* offsets;
};

template <typename Word>
struct RowArcs {
    Near near;
    const Word* held;
    const Word* outside;

    __device__ __forceinline__ Word operator[](u64 at) const { return arc_word(near, held, outside, at); }
};

#define ARCS(Word) const Tiered<Word>*
template <typename Word>
__device__ __forceinline__ RowArcs<Word> arcs_of(const Tiered<Word>* column, u64 row) {
    return {near_of(column->starts, column->offsets, (u32)row), column->held, column->outside};
}
#else
#define ARCS(Word) const Word*
template <typename Word>
__device__ __forceinline__ const Word* arcs_of(const Word* column, u64) {
    return column;
}
#endif

// Sets of rows or of vertices, one bit each.
template <typename Member>
__device__ __forceinline__ u32 bit_in_word(Member member) {
    return 1u << ((u32)member & 31);
}

template <typename Member>
__device__ __forceinline__ bool has(const u32* words, Member member) {
    return words[member >> 5] & bit_in_word(member);
}

// The first of arcs[at:stop) that leads to a member of the frontier is `by` then, for all lanes of the
// warp that calls it; how many arcs it looked at.
template <typename Arcs>
__device__ __forceinline__ u64 look_for(VERTEX& by, const u32* frontier, const Arcs& arcs, u64 at, u64 stop) {
    const u64 begin = at, lane = threadIdx.x % 32;
    for (; at < stop; at += 32) {
        const VERTEX u = at + lane < stop ? arcs[at + lane] : NO_VERTEX;
        const u32 hits = __ballot_sync(FULL, u != NO_VERTEX && has(frontier, u));
        if (!hits) continue;
        by = __shfl_sync(FULL, u, __ffs(hits) - 1);
        return at - begin + __ffs(hits);
    }
    return stop - begin;
}

// Smallest value of all lanes; whole warps call it.
__device__ __forceinline__ u32 warp_least(u32 value) { return __reduce_min_sync(FULL, value); }
__device__ __forceinline__ u64 warp_least(u64 value) {
    for (int step = 16; step; step >>= 1) value = min(value, __shfl_xor_sync(FULL, value, step));
    return value;
}

// Goes through [0, count), a number for each lane of the grid at a time; whole warps call
// `visit(number, real)`, `real` being false in lanes that have none.
template <typename Visit>
__device__ __forceinline__ void over_lanes(u64 count, Visit visit) {
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread; i - threadIdx.x % 32 < count; i += threads) visit(i, i < count);
}

// Makes a set of the rows for which `holds(row)`; returns how many of them this lane has. Whole warps
// call it, and `holds` for all rows of a word together.
template <typename Holds>
__device__ __forceinline__ u64 note_rows(u32 words, u32* set, Holds holds) {
    u64 count = 0;
    over_lanes((u64)words * 32, [&](u64 row, bool) {
        const bool is_member = holds(row);
        const u32 bits = __ballot_sync(FULL, is_member);
        count += is_member;
        if (threadIdx.x % 32 == 0) set[row / 32] = bits;
    });
    return count;
}

// Place in a list for each lane that `takes` one, `length` being its length; whole warps call it.
// A list has each vertex once at most, so that their type numbers its places.
__device__ __forceinline__ VERTEX place_in(u64* length, bool takes) {
    const u32 lane = threadIdx.x % 32, takers = __ballot_sync(FULL, takes);
    VERTEX base = 0;
    if (lane == 0 && takers) base = (VERTEX)atomicAdd(length, (u64)__popc(takers));
    return __shfl_sync(FULL, base, 0) + __popc(takers & ((1u << lane) - 1));
}

// Adds every lane's value to a sum; whole warps call it.
__device__ __forceinline__ void add_to(u64* sum, u64 value) {
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0 && value) atomicAdd(sum, value);
}

// Last entry of ascending starts[low:high) that is not above `arc`; starts[low] is not.
__device__ __forceinline__ u32 entry_of(const u64* starts, u32 low, u32 high, u64 arc) {
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (starts[middle] <= arc) low = middle;
        else high = middle;
    }
    return low;
}

// Goes through the arcs [begin, end) of a list, however they are spread over its entries: starts[e] arcs
// stand before entry e, starts[count] in all. Whole warps call `arc(entry, k)` for the k-th arc of an
// entry, `entry` being NONE in lanes that have none.
template <typename Arc>
__device__ __forceinline__ void over_part(u32 count, const u64* starts, u64 begin, u64 end, Arc arc) {
    const u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = (u64)gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    for (u64 low = begin + warp * SHARE_ARCS; low < end; low += warps * SHARE_ARCS) {
        const u64 stop = min(low + SHARE_ARCS, end);
        const u32 first = entry_of(starts, 0, count, low), last = entry_of(starts, first, count, stop - 1);
        for (u64 a = low + lane; a - lane < stop; a += 32) {
            const bool real = a < stop;
            const u32 entry = real ? entry_of(starts, first, last + 1, a) : NONE;
            arc(entry, real ? a - starts[entry] : 0);
        }
    }
}

// As `over_part`, through all of them.
template <typename Arc>
__device__ __forceinline__ void over_shares(u32 count, const u64* starts, Arc arc) {
    over_part(count, starts, 0, count ? starts[count] : 0, arc);
}
