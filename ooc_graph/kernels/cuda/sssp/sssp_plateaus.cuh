// Parents of rows whose shortest paths all come over arcs that add nothing.
#pragma once
#include "grid.cuh"

// Such rows take the smallest id among the neighbours at the same length that have a parent, which
// `smallest(row)` looks for (NONE: there is none yet). Called round by round, in two steps: what is
// offered, and what is taken. `marks` has the rows that wait; returns how many of them this thread
// has given a parent.
template <typename Graph, typename Offer, typename Smallest>
__device__ __forceinline__ u32 plateau_round(const Graph& g, const u32* flat, u32 count, u32* marks, Offer* offered,
                                             u32* parent, bool apply, Smallest smallest) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    u32 found = 0;
    for (u32 i = thread; i < count; i += threads) {
        const u32 v = __ldcg(flat + i), bit = 1u << (v & 31);
        if (!(__ldcg(marks + (v >> 5)) & bit)) continue;
        if (!apply) {
            offered[v] = smallest(v);
            continue;
        }
        const u32 by = (u32)__ldcg(offered + v);
        if (by == NONE) continue;
        parent[v] = name_of(g, by);
        atomicAnd(marks + (v >> 5), ~bit);
        found++;
    }
    return found;
}
