// SSSP by pushing: rounds below a bound, and what they leave above it.
#pragma once
#include "sssp_tiers.cuh"

// Relaxes an arc to `to` (NONE: none); what can go on below the bound enters the next queue, and
// what is reached for the first time is noted. All lanes of a warp call it.
__device__ __forceinline__ void improve(const Graph& g, const Search& s, Slot* slot, const Wave& wave, u32 to,
                                        u32 candidate, Tally& tally) {
    bool fresh = false, wakes = false;
    if (to != NONE && __ldcg(s.distance + to) > candidate) {
        const u32 before = atomicMin(s.distance + to, candidate);
        if (before > candidate) {
            s.record[to] = ~0ull;
            fresh = before == UNREACHED;
            if (!fresh) tally.again++;
            else if (wave.note) tally.arcs += out_degree(g, to);
            if (sum_of(candidate, __ldg(g.lightest + ((u64)to << g.lightest_shift))) <= wave.bound)
                wakes = !(atomicOr(wave.next_marks + (to >> 5), bit_of(to)) & bit_of(to));
        }
    }
    append(wave.next, &slot->count, 0, wakes, to);
    if (wave.note) append(s.parent, &slot->reached, wave.reached, fresh, to);
}

// Arcs of a row from `at` on, up to `end`, while they stay below the bound; returns where it stopped.
__device__ __forceinline__ u64 relax_arcs(const Graph& g, const Search& s, Slot* slot, const Wave& wave, u32 from,
                                          u32 distance, u64 at, u64 end, Tally& tally) {
    const u32 lane = threadIdx.x % 32;
    const u64 first = __ldg(g.out_offsets + from);
    OUT_NEAR(g, from)
    for (; at < end; at += 32) {
        const bool real = at + lane < end;
        const u32 to = real ? OUT_NEIGHBOR(g, first + at + lane) : NONE;
        const u32 candidate = real ? sum_of(distance, OUT_WEIGHT(g, first + at + lane)) : NONE;
        const bool takes = candidate <= wave.bound;
        const u32 below = __ballot_sync(FULL, takes);
        tally.examined += takes;
        improve(g, s, slot, wave, takes ? to : NONE, candidate, tally);
        if (below != FULL) return at + __popc(below);
    }
    return end;
}

// First arc of a row from `low` on whose candidate is above the bound, by bisection on 32 positions.
__device__ __forceinline__ u64 end_below(const Graph& g, u32 row, u64 low, u64 high, u32 distance, u32 bound) {
    const u32 lane = threadIdx.x % 32;
    const u64 first = __ldg(g.out_offsets + row);
    OUT_NEAR(g, row)
    while (low < high) {
        const u64 step = (high - low + 31) / 32, place = low + step * lane;
        const bool takes = place < high && sum_of(distance, OUT_WEIGHT(g, first + place)) <= bound;
        const u32 below = __popc(__ballot_sync(FULL, takes));
        if (below == 0) return low;
        if (step == 1) return low + below;
        high = min(high, low + step * below);
        low = low + step * (below - 1) + 1;
    }
    return low;
}

// One round: every queued row relaxes its arcs below the bound, a warp each; long pieces are left
// for `relax_pieces`.
__device__ __noinline__ Tally relax_queue(const Graph g, const Search s, Slot* slot, const Wave wave) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    Tally tally = {0, 0, 0};
    for (u32 i = warp; i < wave.count; i += warps) {
        const u32 u = __ldcg(wave.queue + i);
        if (lane == 0) atomicAnd(wave.queue_marks + (u >> 5), ~bit_of(u));
        const u32 d = __shfl_sync(FULL, __ldcg(s.distance + u), 0); // others may be improving it
        const u64 degree = out_degree(g, u);
        u64 at = relaxed_arcs(s, u, d);
        const u64 stop = min(degree, (at / PIECE_ARCS + 1) * PIECE_ARCS);
        at = relax_arcs(g, s, slot, wave, u, d, at, stop, tally);
        if (at == stop && stop < degree) {
            at = end_below(g, u, stop, degree, d, wave.bound);
            const u32 wanted = (u32)((at - stop + PIECE_ARCS - 1) / PIECE_ARCS);
            u32 base = 0;
            if (lane == 0 && wanted) base = atomicAdd(&slot->pieces, wanted);
            base = __shfl_sync(FULL, base, 0);
            for (u32 k = lane; k < wanted; k += 32)
                if (base + k < s.piece_capacity) s.pieces[base + k] = (u64)u << 32 | (stop / PIECE_ARCS + k);
            for (u32 k = s.piece_capacity > base ? s.piece_capacity - base : 0; k < wanted; k++) // no space left
                relax_arcs(g, s, slot, wave, u, d, stop + (u64)k * PIECE_ARCS,
                           min(degree, stop + (u64)(k + 1) * PIECE_ARCS), tally);
        }
        if (lane == 0) s.record[u] = (u64)d << 32 | at;
    }
    return tally;
}

__device__ __noinline__ Tally relax_pieces(const Graph g, const Search s, Slot* slot, const Wave wave, u32 count) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    Tally tally = {0, 0, 0};
    for (u32 i = warp; i < min(count, s.piece_capacity); i += warps) {
        const u64 item = __ldcg(s.pieces + i);
        const u32 u = (u32)(item >> 32);
        const u64 at = (item & NONE) * PIECE_ARCS, end = min(out_degree(g, u), at + PIECE_ARCS);
        // If the distance has improved since, the row is in the next queue.
        const u32 d = __shfl_sync(FULL, __ldcg(s.distance + u), 0);
        relax_arcs(g, s, slot, wave, u, d, at, end, tally);
    }
    return tally;
}

// Smallest candidate of a reached vertex that was not taken yet.
__device__ __forceinline__ u32 next_candidate(const Graph& g, const Search& s, u32 u) {
    const u32 d = __ldcg(s.distance + u);
    const u64 at = __ldg(g.out_offsets + u) + relaxed_arcs(s, u, d);
    OUT_NEAR(g, u)
    return at < __ldg(g.out_offsets + u + 1) ? sum_of(d, OUT_WEIGHT(g, at)) : UNREACHED;
}

__device__ __noinline__ u32 smallest_candidate(const Graph g, const Search s, u32 reached) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    u32 least = UNREACHED;
    for (u32 i = thread; i < reached; i += threads) least = min(least, next_candidate(g, s, __ldcg(s.parent + i)));
    return least;
}

__device__ __noinline__ void wake(const Graph g, const Search s, Slot* slot, u32* next, u32* next_marks, u32 reached,
                                  u32 bound) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 first = thread - lane; first < reached; first += threads) {
        u32 u = NONE;
        if (first + lane < reached) u = __ldcg(s.parent + first + lane);
        const bool wakes = u != NONE && next_candidate(g, s, u) <= bound;
        if (wakes) atomicOr(next_marks + (u >> 5), bit_of(u));
        append(next, &slot->count, 0, wakes, u);
    }
}

// Enters the first `count` reached vertices with the arcs they have not relaxed, or with all.
__device__ __noinline__ void enter_inner(const Graph g, const Search s, Slot* slot, u32 count, bool all) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 first = thread - lane; first < count; first += threads) {
        const bool real = first + lane < count;
        const u32 u = real ? __ldcg(s.parent + first + lane) : 0;
        const u64 arcs = real ? out_degree(g, u) - (all ? 0 : relaxed_arcs(s, u, __ldcg(s.distance + u))) : 0;
        enter(s.queue, &slot->queued, 0, real ? 1 : 0, [&](u32) { return u; }, [&](u32) { return arcs; });
    }
}

// Relaxes what the inner vertices left above the bound, waking nobody.
__device__ __noinline__ void push_inner(const Graph g, const Search s, u32 count, u32 arcs) {
    over_arcs(s.queue, 0, count, arcs, [&](u32 entry, u32 k) {
        if (entry == NONE) return;
        const u32 u = __ldcg(s.queue.rows + entry), d = __ldcg(s.distance + u);
        const u64 at = __ldg(g.out_offsets + u) + relaxed_arcs(s, u, d) + k;
        OUT_NEAR(g, u)
        if (at >= __ldg(g.out_offsets + u + 1)) return;
        const u32 v = OUT_NEIGHBOR(g, at), candidate = sum_of(d, OUT_WEIGHT(g, at));
        if (__ldcg(s.distance + v) > candidate) atomicMin(s.distance + v, candidate);
    });
}
