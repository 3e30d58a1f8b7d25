// What SSSP looks for along a row's arcs, light ones first, wherever they stand. DIST, the type of
// distances, and `path_sum` are those of the header that includes this one.
#pragma once
#include "arcs.cuh"

// Finds a row's shortest way by neighbours that are `floor` away or farther.
struct Pull {
    const DIST* distance;
    DIST floor, top, best;

    __device__ bool take(VERTEX u, WEIGHT weight) {
        if (path_sum(floor, weight, top) >= best) return false;
        best = min(best, path_sum(distance[u], weight, top));
        return true;
    }
    __device__ void share() { best = warp_least(best); }
    __device__ Pull of_lane(u32 lane) const { return {distance, floor, top, __shfl_sync(FULL, best, lane)}; }
};

// Finds the smallest neighbour on a row's plateau that does not wait for a parent.
struct Plateau {
    const DIST* distance;
    const u32* waiting;
    DIST at, top;
    VERTEX by;

    __device__ bool take(VERTEX u, WEIGHT weight) {
        if (path_sum(at, weight, top) > at) return false;
        if (distance[u] == at && !has(waiting, u)) by = min(by, u);
        return true;
    }
    __device__ void share() { by = warp_least(by); }
};
