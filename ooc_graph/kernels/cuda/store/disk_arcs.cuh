// Arcs of rows of which only the first ones, the heads, are within the device's reach. All others
// stay in a store and come in batches of units; requests say where in a batch a row's arcs stand.
#pragma once
#include "rank.cuh"

// As the host lays it out: addresses, and a number.
struct Heads {
    const u32* starts; // (rows + 1,): the head of row r is arcs [starts[r], starts[r + 1])
    const u32* longer; // bitmap of the rows that have more arcs than their heads
    u32* near_neighbors; // arcs [0, split), in device memory
    float* near_weights;
    u32* far_neighbors; // arcs from `split` on, in pinned host memory
    float* far_weights;
    u64 split; // a row begins there, or all end
};

struct Arcs {
    const u32* neighbors;
    const float* weights;
    u32 count;
};

__device__ __forceinline__ Arcs head_of(const Heads& heads, u32 row) {
    const u64 start = heads.starts[row];
    const u32 count = (u32)(heads.starts[row + 1] - start);
    if (start < heads.split) return {heads.near_neighbors + start, heads.near_weights + start, count};
    return {heads.far_neighbors + (start - heads.split), heads.far_weights + (start - heads.split), count};
}

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
__device__ __forceinline__ void over_requests(u32 count, const u32* requests, const u32* neighbors,
                                              const float* weights, Visit visit) {
    for (u64 at = warp_of_grid(); at < count; at += warps_of_grid()) {
        const u32 index = (u32)at;
        const Arcs arcs = {neighbors + request_word(requests, count, NEIGHBORS_AT, index),
                           weights + request_word(requests, count, WEIGHTS_AT, index),
                           request_word(requests, count, ASKED, index)};
        visit(index, request_word(requests, count, ROW, index), arcs);
    }
}

__device__ __forceinline__ void put(u32* words, u32 member) { atomicOr(words + (member >> 5), bit_in_word(member)); }

// Notes a row that goes on beyond its head; whole warps call it.
__device__ __forceinline__ void note_longer(const Heads& heads, u32 row, bool goes, u32* more, u64* counts) {
    if (threadIdx.x % 32 || !goes || !has(heads.longer, row)) return;
    put(more, row);
    atomicAdd(counts + KEPT, (u64)1);
}
