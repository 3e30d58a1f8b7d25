// BFS bottom-up: neighbours in their order, and the ends of long rows.
#pragma once
#include "bfs_tiers.cuh"

#if !TIERED
// What stands behind a row's heads: each thread looks at some arcs of a row of its own (NONE: no
// row); the rest of a long row is left for later, with `parent` ready to take the smallest.
// Returns the first member of the frontier, or NONE.
__device__ __forceinline__ u32 scan_tails(const Graph& g, const Search& s, const Front& front, Slot* slot, u32 v,
                                          Tally& tally) {
    u32 member = NONE, count = 0;
    if (v != NONE) {
        const u64 begin = __ldg(g.in_offsets + v) + HEADS, last = __ldg(g.in_offsets + v + 1);
        const u64 arcs = __ldg(g.in_offsets + g.rows);
        const int own = (int)min(last - begin, (u64)LANE_ARCS);
        int k = -(int)(begin & 3); // aligned, so that one load takes four
        auto four_at = [&](int i) {
            uint4 four = make_uint4(NONE, NONE, NONE, NONE);
            if (i < own) {
                const u32* const from = g.in_neighbors + begin + i;
                if (begin + i + 4 <= arcs) four = __ldg((const uint4*)from);
                else {
                    four.x = i >= 0 ? __ldg(from) : NONE;
                    if (begin + i + 1 < arcs && i + 1 >= 0) four.y = __ldg(from + 1);
                    if (begin + i + 2 < arcs && i + 2 >= 0) four.z = __ldg(from + 2);
                }
                if ((u32)i >= (u32)own) four.x = NONE;
                if ((u32)(i + 1) >= (u32)own) four.y = NONE;
                if ((u32)(i + 2) >= (u32)own) four.z = NONE;
                if ((u32)(i + 3) >= (u32)own) four.w = NONE;
            }
            return four;
        };
        uint4 u = four_at(k);
        while (k < own && member == NONE) {
            k += 4;
            const uint4 ahead = four_at(k); // under way while these are looked at
            member = first_of(front, u, tally);
            u = ahead;
        }
        if (member == NONE && begin + own < last) {
            count = (u32)((last - begin - own + PIECE_ARCS - 1) / PIECE_ARCS);
            s.parent[v] = NONE;
        }
    }
    if (__any_sync(FULL, count)) {
        const u32 at = take_places<true>(&slot->pieces, count);
        for (u32 k = 0; k < count; k++) s.pieces[at + k] = (u64)v << 32 | k;
    }
    return member;
}

// First of a row's neighbours that are cut into pieces.
__device__ __forceinline__ u64 begin_pieces(const Graph& g, u32 v) {
    return __ldg(g.in_offsets + v) + HEADS + LANE_ARCS;
}
#endif

// The pieces of long rows, a warp each; the smallest member of the frontier counts. From host
// memory whole lines are read.
__device__ __noinline__ Tally pull_long_rows(const Graph g, const Search s, const Front front, u32 count) {
    Tally tally = {};
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    u64 item = warp < count ? PIECE_AT(s, warp) : 0;
    for (u32 i = warp; i < count; i += warps) {
        const u64 after = i + warps < count ? PIECE_AT(s, i + warps) : item;
        const u32 v = (u32)(item >> 32);
        const u64 begin = begin_pieces(g, v) + (item & NONE) * (u64)PIECE_ARCS;
        const u64 end = min(begin + PIECE_ARCS, __ldg(g.in_offsets + v + 1));
        const u32* const arcs = IN_ARCS(g, v);
        const u32 best = __shfl_sync(FULL, __ldcg(s.parent + v), 0); // one value for all lanes
        u32 member = NONE;
        for (u64 at = TIERED ? begin / 32 * 32 : begin; at < end && member == NONE; at += 128) {
            u32 u[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const u64 mine = at + 32 * k + lane;
                u[k] = (!TIERED || mine >= begin) && mine < end ? __ldg(arcs + mine) : NONE;
            }
            const u32 least = __shfl_sync(FULL, u[0], TIERED && at < begin ? (u32)(begin - at) : 0);
            if (best < least) break; // an earlier piece has it
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

// Claims rows that have met the frontier (`member`, else NONE) for a level that stands in bits, and
// in the queue too if it has a `tail`; called by whole warps.
__device__ __forceinline__ void claim_open(const Graph& g, const Search& s, u32* next, Slot* slot, u32 v, u32 member,
                                           u32 tail, u32 level, Tally& tally) {
    if (member != NONE) {
        set_found(s, v, level, name_of(g, member));
        atomicOr(s.visited + word_at(v), bit_at(v));
        atomicOr(next + front_word(g, word_at(v)), bit_at(v));
        tally.found++;
    }
    if (tail != NONE && __any_sync(FULL, member != NONE))
        enter(s.queue, &slot->queued, tail, member != NONE, [&](u32) { return v; },
              [&](u32) { return out_degree(g, v); });
}

// Claims the long rows that have met the frontier; the others get back the parent that stands in
// rows not found yet.
__device__ __noinline__ Tally claim_long(const Graph g, const Search s, u32* next, Slot* slot, u32 count, u32 tail,
                                         u32 level) {
    Tally tally = {};
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 i = thread; i - threadIdx.x % 32 < count; i += threads) {
        const u64 item = i < count ? PIECE_AT(s, i) : NONE;
        const u32 v = (u32)(item >> 32);
        const bool first = i < count && !(item & NONE); // one claim a row
        const u32 member = first ? __ldcg(s.parent + v) : NONE;
        if (first && member == NONE) s.parent[v] = __ldg(g.head_original + v);
        claim_open(g, s, next, slot, v, member, tail, level, tally);
    }
    return tally;
}
