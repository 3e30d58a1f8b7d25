// What SSSP by one rank of many does along a row's arcs, light ones first, wherever they stand.
#pragma once
#include "sssp_rank.cuh"
#include "sssp_arcs.cuh"

// What was fetched from the store: requests, a batch of units, and flags that say which rows want more.
#define FETCHED u32 count, const u32 *requests, const VERTEX *neighbors, const WEIGHT *weights, u8 *flags
#define FETCHED_ARCS count, requests, neighbors, weights

// Lists vertices that candidates up to a bound improve, as `push_arcs` of `sssp_rank.cu`.
struct Push {
    const DIST* distance;
    DIST bound, top;
    DIST* best;
    VERTEX* target;
    u64* counts;
    DIST at, later;
    u64 again;
    VERTEX listed;
    bool fresh;

    __device__ bool take(VERTEX v, WEIGHT weight) {
        const DIST candidate = path_sum(at, (DIST)weight, top);
        if (candidate > bound) {
            later = min(later, candidate);
            return false;
        }
        const DIST before = distance[v];
        if (candidate >= before) return true;
        again += before < top;
        fresh = take_least(best + v, candidate) == top;
        listed = v;
        return true;
    }
    __device__ void share() {
        const VERTEX place = place_in(counts + EMITTED, fresh);
        if (fresh) target[place] = listed;
        fresh = false;
    }
};

// Finds a row's parent: the neighbour on a shortest path that is nearest to the root, and the smallest of
// those that near.
struct Parent {
    const DIST* distance;
    DIST at, top, nearest;
    VERTEX by;

    __device__ bool take(VERTEX u, WEIGHT weight) {
        if ((DIST)weight > at) return false;
        const DIST away = distance[u];
        if (away >= at || path_sum(away, (DIST)weight, top) != at) return true;
        if (away < nearest || (away == nearest && u < by)) {
            nearest = away;
            by = u;
        }
        return true;
    }
    __device__ void share() {
        const DIST least = warp_least(nearest);
        by = warp_least(nearest == least ? by : NO_VERTEX);
        nearest = least;
    }
    __device__ Parent of_lane(u32 lane) const {
        return {distance, __shfl_sync(FULL, at, lane), top, __shfl_sync(FULL, nearest, lane),
                __shfl_sync(FULL, by, lane)};
    }
};
