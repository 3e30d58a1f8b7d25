// Sums and orders of path lengths, for the steps of one rank of many. The host sets DIST, the type of
// distances, and WEIGHT, that of weights.
#pragma once
#include "rank.cuh"

// Length of a path one arc longer; `top`, the distance of what is not reached, on overflow.
__device__ __forceinline__ float path_sum(float at, float weight, float) { return __fadd_rn(at, weight); }
__device__ __forceinline__ double path_sum(double at, double weight, double) { return __dadd_rn(at, weight); }
__device__ __forceinline__ i64 path_sum(i64 at, i64 weight, i64 top) {
    return weight > top - at ? top : at + weight;
}

// Distances are not negative, so their bits ascend as they do.
__device__ __forceinline__ u64 bits_of(float value) { return __float_as_uint(value); }
__device__ __forceinline__ u64 bits_of(double value) { return (u64)__double_as_longlong(value); }
__device__ __forceinline__ u64 bits_of(i64 value) { return (u64)value; }

// Takes the smaller value; returns what was there before.
__device__ __forceinline__ float take_least(float* at, float value) {
    return __uint_as_float(atomicMin((u32*)at, __float_as_uint(value)));
}
__device__ __forceinline__ double take_least(double* at, double value) {
    return __longlong_as_double((i64)atomicMin((u64*)at, bits_of(value)));
}
__device__ __forceinline__ i64 take_least(i64* at, i64 value) { return atomicMin(at, value); }

// Keeps the smallest of all values as its complement: zero before means none. Whole warps call it.
__device__ __forceinline__ void keep_least(u64* word, DIST value) {
    u64 most = ~bits_of(value);
    for (int step = 16; step; step >>= 1) most = max(most, __shfl_xor_sync(FULL, most, step));
    if (threadIdx.x % 32 == 0) atomicMax(word, most);
}

// First of the positions [low, high) of a row whose candidate from `at` is above `bound`.
template <typename Weights>
__device__ __forceinline__ u64 first_above(Weights weights, u64 low, u64 high, DIST at, DIST bound, DIST top) {
    while (low < high) {
        const u64 middle = low + (high - low) / 2;
        if (path_sum(at, (DIST)weights[middle], top) > bound) high = middle;
        else low = middle + 1;
    }
    return low;
}

// Smallest distance of all lanes; whole warps call it.
__device__ __forceinline__ DIST warp_least(DIST value) {
    for (int step = 16; step; step >>= 1) value = min(value, __shfl_xor_sync(FULL, value, step));
    return value;
}
