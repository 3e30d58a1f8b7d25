// How a group of blocks searches a batch of sources.
//
// Rows of in-arcs are cut into tiles of at most 32 arcs. In each round a warp looks at a tile, one
// arc a lane, for neighbours that improved in the round before. All lengths are seen relatively to an
// *origin* of their source, how far it is from the landmarks on average: if the lowest length that
// improved at a neighbour and the arc's weight reach the row's highest, the arc can improve nothing.
// Otherwise the neighbour's lanes are taken into the row. The warp writes a row in place, so that
// others may see it in the same round; a row that several tiles share is lowered by atomic minima.
// Distances fall to the greatest fixed point, so no order matters. A round without improvements ends
// the batch.
#pragma once
#include "many_batch.cuh"

// Writes what a row improved to, and notes that it did. All lanes of the warp call it; `next` has map
// and low of the next round.
__device__ __forceinline__ void settle(const Batch& next, u32 row, bool shared_row, const Lane& best, u32 better) {
    if (!__ballot_sync(FULL, better != 0)) return;
    const u32 lane = threadIdx.x % 32;
    Lane* mine = next.distance + (u64)row * 32 + lane;
    float lowest = INFINITE_FLOAT, highest = -INFINITE_FLOAT;
#pragma unroll
    for (int k = 0; k < VEC; k++) {
        const float origin = ORIGINS[lane * VEC + k];
        if (better >> k & 1) lowest = fminf(lowest, __fsub_rd(rounded_down(best.at[k]), origin));
        const float length = best.at[k] == TOP ? INFINITE_FLOAT : rounded_up(magnitude(best.at[k]));
        highest = fmaxf(highest, __fsub_ru(length, origin));
    }
    const u32 low = __reduce_min_sync(FULL, ordered(lowest)), reach = __reduce_max_sync(FULL, ordered(highest));
    if (shared_row) {
#pragma unroll
        for (int k = 0; k < VEC; k++)
            if (better >> k & 1) lower(&mine->at[k], best.at[k]);
    } else if (better) {
        *mine = best;
    }
    if (lane == 0) {
        if (shared_row) atomicMin(next.low + row, low);
        else next.low[row] = low;
        // Of a shared row it may be too high by what other warps do: never too low.
        next.reach[row] = of_ordered(reach);
        atomicOr(next.map + row / 32, 1u << row % 32);
    }
}

// Takes the neighbours in `mask` of the tile whose arcs the lanes hold.
__device__ __forceinline__ void relax_tile(const Batch& next, u32 mask, u32 neighbor, u32 row, Length weight,
                                           bool shared_row) {
    const Lane* distance = next.distance;
    const u32 lane = threadIdx.x % 32;
    u32 current = NONE, better = 0;
    Lane best = lane_of(TOP);
    while (mask) {
        Lane from[AHEAD], to[AHEAD];
        Length add[AHEAD];
        u32 into[AHEAD], before = current;
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            from[k] = to[k] = lane_of(TOP);
            add[k] = 0;
            into[k] = before;
            if (mask) {
                const int arc = __ffs(mask) - 1;
                mask &= mask - 1;
                const u32 u = __shfl_sync(FULL, neighbor, arc);
                into[k] = __shfl_sync(FULL, row, arc);
                add[k] = __shfl_sync(FULL, weight, arc);
                from[k] = load_lane(distance + (u64)u * 32 + lane);
                if (into[k] != before) to[k] = load_lane(distance + (u64)into[k] * 32 + lane);
                before = into[k];
            }
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (into[k] != current) {
                if (current != NONE) settle(next, current, shared_row, best, better);
                current = into[k];
                best = to[k];
                better = 0;
            }
#pragma unroll
            for (int j = 0; j < VEC; j++) {
                const Length candidate = from[k].at[j] + add[k];
                if (from[k].at[j] >= 0 && candidate < magnitude(best.at[j])) {
                    best.at[j] = candidate;
                    better |= 1u << j;
                }
            }
        }
    }
    settle(next, current, shared_row, best, better);
}

// One round; `now` tells who improved in the one before, from shared memory where it fits.
__device__ __forceinline__ void round_of(const BlockGroup& group, const Graph& g, const Batch& now, const Batch& next, bool is_kept) {
    const u32 lane = threadIdx.x % 32;
    u32 begin = 0, end = 0, neighbor = NONE;
    auto fetch = [&](u32 tile) {
        neighbor = NONE;
        if (tile >= g.tiles) return;
        begin = __ldg(g.tile + tile);
        end = __ldg(g.tile + tile + 1) & ~SHARED_ROW;
        const u32 arc = (begin & ~SHARED_ROW) + lane;
        if (arc < end) neighbor = __ldg(g.neighbor + arc);
    };
    fetch(group.warp);
    for (u32 tile = group.warp; tile < g.tiles; tile += group.warps) {
        const u32 arc = (begin & ~SHARED_ROW) + lane, u = neighbor;
        const bool shared_row = begin & SHARED_ROW;
        fetch(tile + group.warps);
        bool active = u != NONE;
        if (active) active = (is_kept ? SHARED_WORDS[u / 32] : __ldcg(now.map + u / 32)) >> u % 32 & 1;
        u32 row = 0;
        Length weight = 0;
        if (active) {
            row = __ldg(g.row + arc);
            weight = __ldg(g.weight + arc);
            const float low = of_ordered(__ldcg(now.low + u));
            active = __fadd_rd(low, rounded_down(weight)) < __ldcg(now.reach + row);
        }
        const u32 mask = __ballot_sync(FULL, active);
        if (mask) relax_tile(next, mask, u, row, weight, shared_row);
    }
}

// Rounds until nothing improves.
__device__ __forceinline__ void search_batch(BlockGroup& group, const Graph& g, const Batch& batch, bool is_kept) {
    const u32 thread = group.block * BLOCK + threadIdx.x, threads = group.blocks * BLOCK;
    auto turn = [&](u32 round) {
        return Batch{batch.distance, batch.reach, batch.map + round % 3 * g.words, batch.low + (u64)(round % 3) * g.rows};
    };
    for (u32 round = 0;; round++) {
        const Batch now = turn(round), next = turn(round + 1), after = turn(round + 2);
        u32 some = 0;
        for (u32 k = threadIdx.x; k < g.words; k += BLOCK) {
            const u32 word = __ldcg(now.map + k);
            some |= word;
            if (is_kept) SHARED_WORDS[k] = word;
        }
        if (!__syncthreads_or(some != 0)) return;
        for (u32 k = thread; k < g.words; k += threads) after.map[k] = 0;
        for (u32 k = thread; k < g.rows; k += threads) after.low[k] = NONE;
        round_of(group, g, now, next, is_kept);
        wait(group);
    }
}
