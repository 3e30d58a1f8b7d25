// Arcs of rows, wherever they stand, and what a warp does with them. All arcs of a row stay in a store and
// come in batches of units; requests say where in a batch a row's arcs stand.
#pragma once
#include "rank.cuh"

#ifndef WEIGHT
#define WEIGHT float
#endif

struct Arcs {
    const VERTEX* neighbors;
    const WEIGHT* weights;
    u32 count;
};

// A whole warp goes along a row's arcs from `from` on, a lane an arc. `action.take(neighbor, weight)`
// tells whether a heavier arc may still matter; `action.share()` makes the lanes' findings one.
// Returns whether all arcs were looked at and none of them was the last that may matter.
template <typename Action>
__device__ __forceinline__ bool along(const Arcs& arcs, u32 from, Action& action, u64& examined) {
    const u32 lane = threadIdx.x % 32;
    for (u64 at = from; at < arcs.count; at += 32) {
        bool goes = true;
        if (at + lane < arcs.count) {
            goes = action.take(arcs.neighbors[at + lane], arcs.weights[at + lane]);
            examined += goes;
        }
        action.share();
        if (!__all_sync(FULL, goes)) return false;
    }
    return true;
}

template <typename Pointer>
__device__ __forceinline__ Pointer of_lane(Pointer pointer, u32 lane) {
    return (Pointer)__shfl_sync(FULL, (u64)pointer, lane);
}

// As `along`, of another row in each lane that is `open`: lanes begin alone, and all of the warp goes
// on with each row of more arcs. Whole warps call it.
template <typename Action>
__device__ __forceinline__ bool along_each(const Arcs& arcs, bool open, Action& action, u64& examined) {
    u32 at = 0;
    for (; open && at < arcs.count && at < LANE_ARCS; at++) {
        open = action.take(arcs.neighbors[at], arcs.weights[at]);
        examined += open;
    }
    for (u32 rest = __ballot_sync(FULL, open && at < arcs.count); rest; rest &= rest - 1) {
        const u32 who = __ffs(rest) - 1;
        const Arcs theirs = {of_lane(arcs.neighbors, who), of_lane(arcs.weights, who),
                             __shfl_sync(FULL, arcs.count, who)};
        Action shared = action.of_lane(who);
        const bool goes = along(theirs, LANE_ARCS, shared, examined);
        if (threadIdx.x % 32 == who) {
            action = shared;
            open = goes;
        }
    }
    return open;
}

__device__ __forceinline__ u32 warp_of_grid() {
    return (u32)(((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32);
}
__device__ __forceinline__ u32 warps_of_grid() { return (u32)((u64)gridDim.x * blockDim.x / 32); }

// Whole warps call `visit(row)` for the members of a bitmap that nobody writes meanwhile.
template <typename Visit>
__device__ __forceinline__ void over_members(u32 words, const u32* bits, Visit visit) {
    for (u64 word = warp_of_grid(); word < words; word += warps_of_grid())
        for (u32 rest = bits[word]; rest; rest &= rest - 1) visit((u32)word * 32 + __ffs(rest) - 1);
}

// Whole warps call `visit(row)` for the rows of a list.
template <typename Visit>
__device__ __forceinline__ void over_list(u64 count, const u32* list, Visit visit) {
    for (u64 index = warp_of_grid(); index < count; index += warps_of_grid()) visit(list[index]);
}

// Words of a request, each of them as often as there are requests.
enum Request { ROW, CURSOR, ASKED, NEIGHBORS_AT, WEIGHTS_AT };

__device__ __forceinline__ u32 request_word(const u32* requests, u32 count, Request word, u32 index) {
    return requests[(u64)word * count + index];
}

// Whole warps call `visit(index, row, arcs)` for each request, `arcs` being those at hand.
template <typename Visit>
__device__ __forceinline__ void over_requests(u32 count, const u32* requests, const VERTEX* neighbors,
                                              const WEIGHT* weights, Visit visit) {
    for (u64 at = warp_of_grid(); at < count; at += warps_of_grid()) {
        const u32 index = (u32)at;
        const Arcs arcs = {neighbors + request_word(requests, count, NEIGHBORS_AT, index),
                           weights + request_word(requests, count, WEIGHTS_AT, index),
                           request_word(requests, count, ASKED, index)};
        visit(index, request_word(requests, count, ROW, index), arcs);
    }
}

// Says whether a request's row wants more.
__device__ __forceinline__ void set_flag(u8* flags, u32 index, bool goes) {
    if (threadIdx.x % 32 == 0) flags[index] = goes;
}

__device__ __forceinline__ void put(u32* words, u32 member) { atomicOr(words + (member >> 5), bit_in_word(member)); }

// Copies what was fetched of a row, from its arc `cursor` on, to its head as far as that goes; whole warps
// call it. heads[offsets[row]] is the first arc of the head.
template <typename Word>
__device__ __forceinline__ void copy_to_head(const Word* from, u32 count, u32 cursor, const u64* offsets, u32 row,
                                             Word* heads) {
    const u64 begin = offsets[row] + cursor, end = offsets[row + 1];
    for (u64 at = threadIdx.x % 32; at < count && begin + at < end; at += 32) heads[begin + at] = from[at];
}
