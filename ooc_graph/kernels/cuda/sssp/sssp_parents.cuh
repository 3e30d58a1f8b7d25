// Parents of an SSSP, once all distances are final.
#pragma once
#include "sssp_plateaus.cuh"
#include "sssp_pull.cuh"

// One of three steps by which the inner vertices offer themselves as parents along all their arcs:
// forget, take the nearest (ties: the smallest id), tell who it was.
__device__ __noinline__ void offer_inner(const Graph g, const Search s, u32 count, u32 arcs, u32 step) {
    over_arcs(s.queue, 0, count, arcs, [&](u32 entry, u32 k) {
        if (entry == NONE) return;
        const u32 u = __ldcg(s.queue.rows + entry), d = __ldcg(s.distance + u);
        const u64 at = __ldg(g.out_offsets + u) + k, key = (u64)d << 32 | u;
        OUT_NEAR(g, u)
        if (at >= __ldg(g.out_offsets + u + 1)) return;
        const u32 v = OUT_NEIGHBOR(g, at), away = __ldcg(s.distance + v);
        if (d >= away || sum_of(d, OUT_WEIGHT(g, at)) != away) return;
        if (step == 0) s.record[v] = ~0ull;
        if (step == 1) atomicMin(s.record + v, key);
        if (step == 2 && __ldcg(s.record + v) == key) {
            s.parent[v] = name_of(g, u);
            atomicOr(s.resolved + (v >> 5), bit_of(v));
        }
    });
}

__device__ __forceinline__ bool offer_pair(const Search& s, uint4 pair, u32 floor, u32 at, Best& best,
                                           u64& examined) {
    const u32 w = pair.y, x = pair.w;
    const bool one = sum_of(floor, w) <= at, two = sum_of(floor, x) <= at;
    const u32 a = one ? __ldcg(s.distance + pair.x) : UNREACHED, b = two ? __ldcg(s.distance + pair.z) : UNREACHED;
    examined += one + two;
    best.offer(at, pair.x, a, w);
    best.offer(at, pair.z, b, x);
    return two;
}

// Parents of all rows that have none among the inner vertices; the others are at `floor` or beyond.
__device__ __forceinline__ void parent_pass(const Graph& g, const Search& s, Slot* slot, u32 root, u32 floor,
                                            WarpBuffer& buffer, u64& examined) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    const uint4 none = make_uint4(0, UNREACHED, 0, UNREACHED);
    for (u32 v = warp; v < g.hubs; v += warps) {
        const u32 at = __ldcg(s.distance + v);
        if (__ldcg(s.resolved + (v >> 5)) & bit_of(v)) continue;
        u64 best = ~0ull;
        IN_NEAR(g, v)
        const u64 end = at < UNREACHED ? __ldg(g.in_offsets + v + 1) : 0;
        for (u64 a = __ldg(g.in_offsets + v) + lane; a - lane < end; a += 32) {
            const u32 w = a < end ? IN_WEIGHT(g, a) : UNREACHED;
            const bool goes = sum_of(floor, w) <= at;
            if (goes) {
                const u32 u = IN_NEIGHBOR(g, a), away = __ldcg(s.distance + u);
                if (away < at && sum_of(away, w) == at) best = min(best, (u64)away << 32 | u);
                examined++;
            }
            if (!__all_sync(FULL, goes)) break;
        }
        for (int step = 16; step; step >>= 1) best = min(best, __shfl_xor_sync(FULL, best, step));
        if (v == root) best = v;
        if (lane == 0) s.parent[v] = best == ~0ull ? NONE : name_of(g, (u32)best);
        append(s.queue.rows, &slot->count, 0, lane == 0 && at < UNREACHED && best == ~0ull, v);
    }
    for (u32 group = g.hubs / (WARP_QUADS * 128) + warp; group * WARP_QUADS < g.quads; group += warps) {
        const u32 base = group * WARP_QUADS * 128;
        u32 kept = 0;
        for (u32 quad = 0; quad < WARP_QUADS && group * WARP_QUADS + quad < g.quads; quad++) {
            const u32 first = base + quad * 128 + lane;
            const uint4 done = __ldcg((const uint4*)s.resolved + group * WARP_QUADS + quad);
            const u32 has[4] = {done.x, done.y, done.z, done.w};
            u32 at[4], away[4];
            Best best[4];
            uint2 h[4];
            u32 second[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const u32 v = first + 32 * j;
                at[j] = v < g.rows && !(has[j] >> lane & 1) ? __ldcg(s.distance + v) : NONE;
                h[j] = v < g.rows ? __ldcs(g.head + v) : make_uint2(0, UNREACHED);
                second[j] = v < g.longer1 ? __ldcs(g.second + v) : UNREACHED;
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const bool goes = at[j] < UNREACHED && sum_of(floor, h[j].y) <= at[j];
                away[j] = goes ? __ldcg(s.distance + h[j].x) : UNREACHED;
                examined += goes;
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const u32 v = first + 32 * j;
                best[j] = {UNREACHED, NONE};
                if (at[j] < UNREACHED) best[j].offer(at[j], h[j].x, away[j], h[j].y);
                const bool goes = at[j] < UNREACHED && v != root && sum_of(floor, second[j]) <= at[j];
                const u32 waiting = __ballot_sync(FULL, goes);
                if (goes) {
                    const u32 place = kept + __popc(waiting & ((1u << lane) - 1));
                    buffer.rows[place] = v - base;
                    buffer.best[place] = best[j].away;
                    buffer.parent[place] = best[j].parent;
                }
                kept += __popc(waiting);
#if INTEGERS // NONE is what is not reached, too
                const bool asked = v < g.rows && !(has[j] >> lane & 1);
#else
                const bool asked = at[j] != NONE;
#endif
                if (asked && !goes) {
                    if (v == root) best[j].parent = v;
                    s.parent[v] = best[j].parent == NONE ? NONE : name_of(g, best[j].parent);
                }
                append(s.queue.rows, &slot->count, 0, at[j] < UNREACHED && !goes && best[j].parent == NONE, v);
            }
        }
        __syncwarp();
        u32 v = lane < kept ? base + buffer.rows[lane] : NONE;
        uint4 pair = v != NONE ? __ldcs(g.pair + v) : none;
        for (u32 first = 0; first < kept; first += 32) {
            const u32 next_v = first + 32 + lane < kept ? base + buffer.rows[first + 32 + lane] : NONE;
            const uint4 next_pair = next_v != NONE ? __ldcs(g.pair + next_v) : none;
            Best best = {UNREACHED, 0};
            if (v != NONE) {
                const u32 at = __ldcg(s.distance + v);
                best = {buffer.best[first + lane], buffer.parent[first + lane]};
                bool goes = offer_pair(s, pair, floor, at, best, examined) && v < g.longer3;
                if (goes) goes = offer_pair(s, __ldcs(g.pair2 + v), floor, at, best, examined);
                if (goes) {
                    IN_NEAR(g, v)
                    const u64 end = __ldg(g.in_offsets + v + 1);
                    for (u64 a = __ldg(g.in_offsets + v) + 5; a < end; a++) {
                        const u32 w = IN_WEIGHT(g, a);
                        if (sum_of(floor, w) > at) break;
                        const u32 u = IN_NEIGHBOR(g, a);
                        best.offer(at, u, __ldcg(s.distance + u), w);
                        examined++;
                    }
                }
                s.parent[v] = best.parent == NONE ? NONE : name_of(g, best.parent);
            }
            append(s.queue.rows, &slot->count, 0, v != NONE && best.parent == NONE, v);
            v = next_v;
            pair = next_pair;
        }
        __syncwarp();
    }
}

__device__ __noinline__ u32 plateau_step(const Graph g, const Search s, u32 count, bool apply) {
    return plateau_round(g, s.queue.rows, count, s.marks, s.record, s.parent, apply, [&](u32 v) {
        const u32 d = __ldcg(s.distance + v);
        u32 parent = NONE;
        IN_NEAR(g, v)
        const u64 end = __ldg(g.in_offsets + v + 1);
        for (u64 a = __ldg(g.in_offsets + v); a < end; a++) {
            if (sum_of(d, IN_WEIGHT(g, a)) > d) break;
            const u32 u = IN_NEIGHBOR(g, a);
            if (__ldcg(s.distance + u) == d && !(__ldcg(s.marks + (u >> 5)) & bit_of(u))) parent = min(parent, u);
        }
        return parent;
    });
}
