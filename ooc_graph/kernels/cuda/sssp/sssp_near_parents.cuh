// Parents of all rows, from final lengths: of the neighbours that attain a row's length and are
// nearer, the nearest, ties by the smallest id; on plateaus by hops, then id.
#pragma once
#include "sssp_near_graph.cuh"
#include "sssp_plateaus.cuh"

// The best among every `team`-th in-arc of a row from number `k` on.
__device__ __forceinline__ Best best_of(const Graph& g, const Search& s, u32 v, Length at, u32 k, u32 team,
                                        u64& examined) {
    Best best = {UNREACHED, NONE};
    const u64 end = at < UNREACHED ? __ldg(g.in_offsets + v + 1) : 0;
    for (u64 a = __ldg(g.in_offsets + v) + k; a < end; a += team) {
        const Weight w = __ldg(g.in_weights + a);
        if (sum_of(0, w) > at) break;
        const u32 u = __ldg(g.in_neighbors + a);
        examined++;
        best.offer(at, u, __ldcg(s.length + u), w);
    }
    return best;
}

__device__ __forceinline__ Best best_in_warp(Best best) {
    for (int step = 16; step; step >>= 1) {
        const Length away = __shfl_xor_sync(FULL, best.away, step);
        const u32 parent = __shfl_xor_sync(FULL, best.parent, step);
        best.take(away, parent);
    }
    return best;
}

// Writes a row's parent; a row that has none is listed. All lanes of a warp call it.
__device__ __forceinline__ void settle(const Graph& g, const Search& s, u32* count, u32 root, bool real, u32 v,
                                       Length at, u32 parent) {
    if (v == root) parent = v;
    if (real) s.parent[v] = parent == NONE ? NONE : name_of(g, parent);
    append(s.flat, count, 0, real && at < UNREACHED && parent == NONE, v);
}

__device__ __noinline__ u64 parent_pass(const Graph g, const Search s, u32* count, u32 root, Best* scratch) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    u64 examined = 0;
    for (u32 v = blockIdx.x; v < g.giants; v += gridDim.x) {
        const Length at = __ldcg(s.length + v);
        Best best = best_in_warp(best_of(g, s, v, at, threadIdx.x, blockDim.x, examined));
        __syncthreads();
        if (lane == 0) scratch[threadIdx.x / 32] = best;
        __syncthreads();
        if (threadIdx.x < 32) {
            best = {UNREACHED, NONE};
            if (lane < blockDim.x / 32) best = scratch[lane];
            best = best_in_warp(best);
            settle(g, s, count, root, lane == 0, v, at, best.parent);
        }
    }
    for (u32 v = g.giants + thread / 32; v < g.hubs; v += threads / 32) {
        const Length at = __ldcg(s.length + v);
        const Best best = best_in_warp(best_of(g, s, v, at, lane, 32, examined));
        settle(g, s, count, root, lane == 0, v, at, best.parent);
    }
    for (u64 first = (u64)g.hubs + thread - lane; first < g.rows; first += threads) {
        const bool real = first + lane < g.rows;
        const u32 v = real ? (u32)first + lane : NONE;
        const Length at = real ? __ldcg(s.length + v) : UNREACHED;
        Best best = {UNREACHED, NONE};
        if (real) best = best_of(g, s, v, at, 0, 1, examined);
        settle(g, s, count, root, real, v, at, best.parent);
    }
    return examined;
}

__device__ __noinline__ u32 plateau_step(const Graph g, const Search s, u32 count, bool apply) {
    return plateau_round(g, s.flat, count, s.marks, (u32*)s.done, s.parent, apply, [&](u32 v) {
        const Length at = __ldcg(s.length + v);
        u32 parent = NONE;
        const u64 end = __ldg(g.in_offsets + v + 1);
        for (u64 a = __ldg(g.in_offsets + v); a < end; a++) {
            if (sum_of(at, __ldg(g.in_weights + a)) > at) break;
            const u32 u = __ldg(g.in_neighbors + a);
            if (__ldcg(s.length + u) == at && !(__ldcg(s.marks + (u >> 5)) >> (u & 31) & 1)) parent = min(parent, u);
        }
        return parent;
    });
}
