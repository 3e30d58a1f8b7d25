// SSSP by pulling: passes over all rows that may still come nearer.
#pragma once
#include "sssp_tiers.cuh"

// A warp's buffer in shared memory: rows of its quads that continue, counted from its first, what they have
// so far, and words of bits.
struct WarpBuffer {
    u16 rows[WARP_QUADS * 128];
    u32 best[WARP_QUADS * 128];
    u32 parent[WARP_QUADS * 128];
    u32 got[32];
};
static_assert(sizeof(WarpBuffer) == BUFFER_BYTES, "the caller sizes shared memory by it");

struct Pulled {
    u64 examined, arcs;
    u32 changed, reached, least;
    u32 most; // farthest before the pass
};

// A pair of arcs of a row that has `best`; tells whether the row may go on behind them.
__device__ __forceinline__ bool pull_pair(const Search& s, uint4 pair, u32 floor, u32& best, u64& examined) {
    const u32 w = pair.y, x = pair.w;
    const bool one = sum_of(floor, w) < best, two = sum_of(floor, x) < best;
    const u32 a = one ? __ldcg(s.distance + pair.x) : UNREACHED, b = two ? __ldcg(s.distance + pair.z) : UNREACHED;
    examined += one + two;
    best = min(best, min(sum_of(a, w), sum_of(b, x)));
    return sum_of(floor, x) < best;
}

// One pass over the rows farther than `final`. No arc of weight w helps a row at `best` unless
// floor + w < best, and rows ascend by weight.
//
// A row's distance is written by its own warp alone, by a plain 32-bit store, while other warps
// read it. That race is wanted: they see the old distance or the new one, and both are lengths of
// real paths. Who saw the old one is looked at again, for a pass that changed anything is followed
// by another, or by a push from what it changed.
__device__ __forceinline__ void pull_pass(const Graph& g, const Search& s, u32 final, u32 floor, bool count_arcs,
                                          WarpBuffer& buffer, Pulled& sum) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    const uint4 none = make_uint4(0, UNREACHED, 0, UNREACHED);
    for (u32 v = warp; v < g.hubs; v += warps) {
        const u32 before = __shfl_sync(FULL, __ldcg(s.distance + v), 0);
        if (before != UNREACHED) sum.most = max(sum.most, before);
        if (lane == 0) atomicAnd(s.marks + (v >> 5), ~bit_of(v));
        if (before <= final) continue;
        IN_NEAR(g, v)
        u32 best = before;
        const u64 end = __ldg(g.in_offsets + v + 1);
        for (u64 at = __ldg(g.in_offsets + v) + lane; at - lane < end; at += 32) {
            const u32 w = at < end ? IN_WEIGHT(g, at) : UNREACHED;
            const bool goes = sum_of(floor, w) < best;
            const u32 candidate = goes ? sum_of(__ldcg(s.distance + IN_NEIGHBOR(g, at)), w) : UNREACHED;
            sum.examined += goes;
            best = min(best, __reduce_min_sync(FULL, candidate));
            if (!__all_sync(FULL, goes)) break;
        }
        if (lane == 0 && best < before) {
            __stcg(s.distance + v, best);
            atomicOr(s.marks + (v >> 5), bit_of(v));
            sum.changed++;
            sum.reached += before == UNREACHED;
            sum.least = min(sum.least, best);
            if (count_arcs) sum.arcs += out_degree(g, v);
        }
    }
    for (u32 group = g.hubs / (WARP_QUADS * 128) + warp; group * WARP_QUADS < g.quads; group += warps) {
        const u32 base = group * WARP_QUADS * 128;
        u32 kept = 0;
        if (lane < WARP_QUADS * 4) buffer.got[lane] = 0;
        __syncwarp();
        for (u32 quad = 0; quad < WARP_QUADS && group * WARP_QUADS + quad < g.quads; quad++) {
            const u32 first = base + quad * 128 + lane;
            u32 before[4], best[4];
            uint2 h[4];
            u32 second[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const u32 v = first + 32 * j;
                before[j] = v < g.rows ? __ldcg(s.distance + v) : 0;
                h[j] = v < g.rows ? __ldcs(g.head + v) : make_uint2(0, UNREACHED);
                second[j] = v < g.longer1 ? __ldcs(g.second + v) : UNREACHED;
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const bool goes = before[j] > final && sum_of(floor, h[j].y) < before[j];
                best[j] = goes ? __ldcg(s.distance + h[j].x) : UNREACHED;
                sum.examined += goes;
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const u32 v = first + 32 * j;
                best[j] = min(before[j], sum_of(best[j], h[j].y));
                const bool better = best[j] < before[j], goes = before[j] > final && sum_of(floor, second[j]) < best[j];
                if (better) {
                    __stcg(s.distance + v, best[j]);
                    sum.reached += before[j] == UNREACHED;
                    sum.least = min(sum.least, best[j]);
                }
                if (before[j] != UNREACHED) sum.most = max(sum.most, before[j]);
                const u32 improved = __ballot_sync(FULL, better), waiting = __ballot_sync(FULL, goes);
                if (lane == 0) buffer.got[quad * 4 + j] = improved;
                if (goes) {
                    const u32 at = kept + __popc(waiting & ((1u << lane) - 1));
                    buffer.rows[at] = v - base;
                    buffer.best[at] = best[j];
                }
                kept += __popc(waiting);
            }
        }
        __syncwarp();
        u32 v = lane < kept ? base + buffer.rows[lane] : NONE;
        uint4 pair = v != NONE ? __ldcs(g.pair + v) : none;
        for (u32 first = 0; first < kept; first += 32) {
            const u32 next_v = first + 32 + lane < kept ? base + buffer.rows[first + 32 + lane] : NONE;
            const uint4 next_pair = next_v != NONE ? __ldcs(g.pair + next_v) : none;
            if (v != NONE) {
                const u32 before = buffer.best[first + lane];
                u32 best = before;
                bool goes = pull_pair(s, pair, floor, best, sum.examined) && v < g.longer3;
                if (goes) goes = pull_pair(s, __ldcs(g.pair2 + v), floor, best, sum.examined);
                if (goes) {
                    IN_NEAR(g, v)
                    u64 at = __ldg(g.in_offsets + v) + 5;
                    const u64 end = __ldg(g.in_offsets + v + 1);
                    for (; at < end; at++) {
                        const u32 w = IN_WEIGHT(g, at);
                        if (sum_of(floor, w) >= best) break;
                        best = min(best, sum_of(__ldcg(s.distance + IN_NEIGHBOR(g, at)), w));
                        sum.examined++;
                    }
                }
                if (best < before) {
                    __stcg(s.distance + v, best);
                    if (!(atomicOr(buffer.got + ((v - base) >> 5), bit_of(v)) & bit_of(v))) sum.reached += before == UNREACHED;
                    sum.least = min(sum.least, best);
                }
            }
            v = next_v;
            pair = next_pair;
        }
        __syncwarp();
        const u32 word = group * WARP_QUADS * 4 + lane;
        if (lane < WARP_QUADS * 4 && word < g.quads * 4) {
            u32 bits = buffer.got[lane];
            s.marks[word] = bits;
            sum.changed += __popc(bits);
            if (count_arcs)
                for (; bits; bits &= bits - 1) sum.arcs += out_degree(g, word * 32 + __ffs(bits) - 1);
        }
        __syncwarp();
    }
}

// Lists the marked rows.
__device__ __noinline__ void list_marked(const Graph g, const Search s, Slot* slot, u32* next) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 word = thread; word - threadIdx.x % 32 < g.quads * 4; word += threads) {
        u32 bits = word < g.quads * 4 ? __ldcg(s.marks + word) : 0;
        u32 at = take_places(&slot->count, (u32)__popc(bits));
        for (; bits; bits &= bits - 1) {
            const u32 v = word * 32 + __ffs(bits) - 1;
            next[at++] = v;
            s.record[v] = ~0ull;
        }
    }
}
