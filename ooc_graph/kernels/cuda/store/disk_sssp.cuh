// What SSSP does along a row's arcs, light ones first, wherever they stand. Distances are the bits of
// float32 numbers that are not negative, so that they ascend as those do.
#pragma once
#include "disk_arcs.cuh"

// +inf: what is not reached, and sums that overflow.
#define TOP 0x7F800000u
#define DIST u32

// Length of a path one arc longer.
__device__ __forceinline__ u32 path_sum(u32 at, float weight, u32 = TOP) {
    return __float_as_uint(__fadd_rn(__uint_as_float(at), weight));
}

#include "sssp_arcs.cuh"

// Keeps the smallest of all values as its complement: zero before means none. Whole warps call it.
__device__ __forceinline__ void keep_least(u64* counts, u32 value) {
    value = warp_least(value);
    if (threadIdx.x % 32 == 0) atomicMax(counts + LEAST, ~(u64)value);
}

// Offers a row's distance to its neighbours, up to a bound.
struct Push {
    u32 *distance, *improved;
    u32 at, bound;
    u64 fresh, again;

    __device__ bool take(u32 v, float weight) {
        const u32 candidate = path_sum(at, weight);
        if (candidate > bound) return false;
        if (candidate >= distance[v]) return true;
        const u32 before = atomicMin(distance + v, candidate);
        if (candidate >= before) return true;
        put(improved, v);
        fresh += before == TOP;
        again += before != TOP;
        return true;
    }
    __device__ void share() {}
    __device__ void count(u64* counts) const {
        add_to(counts + EMITTED, fresh);
        add_to(counts + AGAIN, again);
    }
};

// Offers a row as a parent; the nearest to the root counts, and the smallest of those.
struct Offer {
    const u32* distance;
    u32* parent;
    u32 u, at;

    __device__ bool take(u32 v, float weight) {
        const u32 away = distance[v];
        if (at >= away || away == TOP || path_sum(at, weight) != away) return true;
        for (u32 held = parent[v];;) {
            if (held != NONE && (distance[held] < at || (distance[held] == at && held <= u))) return true;
            const u32 found = atomicCAS(parent + v, held, u);
            if (found == held) return true;
            held = found;
        }
    }
    __device__ void share() {}
};

// Finds a row's parent among neighbours that are `floor` away or farther: distance, then id.
struct Parent {
    const u32* distance;
    u32 at, floor;
    u64 best; // all ones: none

    __device__ bool take(u32 u, float weight) {
        if (path_sum(floor, weight) > at) return false;
        const u32 away = distance[u];
        if (away < at && path_sum(away, weight) == at) best = min(best, (u64)away << 32 | u);
        return true;
    }
    __device__ void share() { best = warp_least(best); }
    __device__ Parent of_lane(u32 lane) const { return {distance, at_of(lane), floor, __shfl_sync(FULL, best, lane)}; }
    __device__ u32 at_of(u32 lane) const { return __shfl_sync(FULL, at, lane); }
};

// Offers a row as parent to those on its plateau that lack one; the smallest counts.
struct Spread {
    const u32 *distance, *lacking;
    u32 *parent, *next;
    u32 u, at;

    __device__ bool take(u32 v, float weight) {
        if (path_sum(at, weight) > at) return false;
        if (distance[v] == at && has(lacking, v)) {
            atomicMin(parent + v, u);
            put(next, v);
        }
        return true;
    }
    __device__ void share() {}
};

// Looks for neighbours that are not reached.
struct Lost {
    const u32* distance;
    u64 lost;

    __device__ bool take(u32 v, float) {
        lost += distance[v] == TOP;
        return true;
    }
    __device__ void share() {}
};
