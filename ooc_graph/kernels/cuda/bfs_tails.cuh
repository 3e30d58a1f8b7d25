// BFS bottom-up: neighbours in their order, and the ends of long rows.
#pragma once
#include "bfs_graph.cuh"

// Looks at four neighbours in their order; the first member of the frontier, or NONE.
__device__ __forceinline__ u32 first_of(const Front& front, uint4 u, Tally& tally) {
    u32 x = word_of(front, u.x), y = word_of(front, u.y), z = word_of(front, u.z), w = word_of(front, u.w);
    u32 member = w & bit_at(u.w) ? u.w : NONE;
    if (z & bit_at(u.z)) member = u.z;
    if (y & bit_at(u.y)) member = u.y;
    if (x & bit_at(u.x)) member = u.x;
#ifdef COUNT
    tally.examined += (u.x != NONE) + (u.y != NONE && u.y <= member) + (u.z != NONE && u.z <= member) +
                      (u.w != NONE && u.w <= member);
#endif
    return member;
}

// What stands behind a row's heads: each thread looks at some arcs of a row of its own (NONE: no
// row); the rest of a long row is left for later, with `parent` ready to take the smallest.
// Returns the first member of the frontier, or NONE.
__device__ __forceinline__ u32 scan_tails(const Graph& g, const Search& s, const Front& front, Slot* slot, u32 v,
                                          Tally& tally) {
    u32 lane = threadIdx.x % 32, member = NONE, count = 0;
    if (v != NONE) {
        u64 at = __ldg(g.in_offsets + v) + HEADS, last = __ldg(g.in_offsets + v + 1), stop = min(last, at + LANE_ARCS);
        auto four_at = [&](u64 k) {
            return make_uint4(k < last ? __ldg(g.in_neighbors + k) : NONE,
                              k + 1 < last ? __ldg(g.in_neighbors + k + 1) : NONE,
                              k + 2 < last ? __ldg(g.in_neighbors + k + 2) : NONE,
                              k + 3 < last ? __ldg(g.in_neighbors + k + 3) : NONE);
        };
        uint4 u = four_at(at);
        while (at < stop && member == NONE) {
            at += 4;
            const uint4 ahead = four_at(min(at, stop)); // under way while these are looked at
            member = first_of(front, u, tally);
            u = ahead;
        }
        if (member == NONE && at < last) {
            count = (u32)((last - at + STRETCH - 1) / STRETCH);
            s.parent[v] = NONE;
        }
    }
    if (__any_sync(FULL, count)) {
        u32 sum = sum_to_lane(count), base = 0;
        if (lane == 31) base = atomicAdd(&slot->stretches, sum);
        u32 at = __shfl_sync(FULL, base, 31) + sum - count;
        for (u32 k = 0; k < count; k++) s.stretches[at + k] = (u64)v << 32 | k;
    }
    return member;
}

// The stretches of long rows, a warp each; the smallest member of the frontier counts.
__device__ __noinline__ Tally pull_stretches(const Graph g, const Search s, const Front front, u32 count) {
    Tally tally = {};
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    u64 item = thread / 32 < count ? __ldcg(s.stretches + thread / 32) : 0;
    for (u32 i = thread / 32; i < count; i += threads / 32) {
        const u64 after = i + threads / 32 < count ? __ldcg(s.stretches + i + threads / 32) : item;
        const u32 v = (u32)(item >> 32);
        u64 at = __ldg(g.in_offsets + v) + HEADS + LANE_ARCS + (item & NONE) * (u64)STRETCH;
        u64 end = min(at + STRETCH, __ldg(g.in_offsets + v + 1));
        u32 best = __shfl_sync(FULL, __ldcg(s.parent + v), 0), member = NONE; // one value for all lanes
        for (; at < end && member == NONE; at += 128) {
            u32 u[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                u[k] = at + 32 * k + lane < end ? __ldg(g.in_neighbors + at + 32 * k + lane) : NONE;
            if (best < __shfl_sync(FULL, u[0], 0)) break; // an earlier stretch has it
#pragma unroll
            for (int k = 3; k >= 0; k--) {
                u32 hits = __ballot_sync(FULL, holds(front, u[k]));
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

// Claims rows that have met the frontier (`member`, else NONE) for a level that stands in bits, and
// in the queue too if it has a `tail`; called by whole warps.
__device__ __forceinline__ void claim_open(const Graph& g, const Search& s, u32* next, Slot* slot, u32 v, u32 member,
                                           u32 tail, u32 level, Tally& tally) {
    if (member != NONE) {
        set_found(s, v, level, name_of(g, member));
        atomicOr(s.visited + word_at(v), bit_at(v));
        atomicOr(next + word_at(v), bit_at(v));
        tally.found++;
    }
    if (tail != NONE && __any_sync(FULL, member != NONE))
        enter(s.queue, &slot->queued, tail, member != NONE, [&](u32) { return v; },
              [&](u32) { return out_degree(g, v); });
}

// Claims the long rows that have met the frontier.
__device__ __noinline__ Tally claim_long(const Graph g, const Search s, u32* next, Slot* slot, u32 count, u32 tail,
                                         u32 level) {
    Tally tally = {};
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 i = thread; i - threadIdx.x % 32 < count; i += threads) {
        const u64 item = i < count ? __ldcg(s.stretches + i) : NONE;
        const u32 v = (u32)(item >> 32);
        const bool first = i < count && !(item & NONE); // one claim a row
        claim_open(g, s, next, slot, v, first ? __ldcg(s.parent + v) : NONE, tail, level, tally);
    }
    return tally;
}
