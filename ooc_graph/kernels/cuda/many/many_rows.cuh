// Distances from a batch of sources: vertex by vertex, one source a lane.
//
// The host sets KIND: 0 float, 1 double, 2 integers of 64 bits; and VEC: sources of one thread, 4 or, of
// 64 bits, 2; a warp has all of a batch. What is not reached holds TOP, to which any weight can be added.
#pragma once
#include "grid.cuh"

#define SLOTS (32 * VEC)

#if KIND == 0
typedef float Length;
typedef u32 Bits;
#define TOP __uint_as_float(0x7F800000u)
#define FAR TOP
#elif KIND == 1
typedef double Length;
typedef u64 Bits;
#define TOP __longlong_as_double(0x7FF0000000000000ll)
#define FAR TOP
#else
typedef long long Length;
typedef u64 Bits;
#define TOP 0x4000000000000000ll
#define FAR 0x7FFFFFFFFFFFFFFFll
#endif

#define MARKS 32 // landmarks
#define INFINITE_FLOAT __uint_as_float(0x7F800000u)

// Where nothing is known but a bound above what will be found, its negative stands: never 0, and no
// neighbour takes it for a length.
__device__ __forceinline__ Length bounded_by(float bound) {
#if KIND == 2
    return bound < 4.6e18f ? -(__float2ll_ru(bound) + 1) : TOP;
#else
    return bound < INFINITE_FLOAT ? -(Length)bound : TOP;
#endif
}

__device__ __forceinline__ Length magnitude(Length length) {
#if KIND == 0
    return fabsf(length);
#elif KIND == 1
    return fabs(length);
#else
    return length < 0 ? -length : length;
#endif
}

// Bits of floats that order like them.
__device__ __forceinline__ u32 ordered(float value) {
    const u32 bits = __float_as_uint(value);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float of_ordered(u32 bits) {
    return __uint_as_float(bits >> 31 ? bits & 0x7FFFFFFFu : ~bits);
}
#define LOWEST 0x007FFFFFu // of minus infinity

struct alignas(sizeof(Length) * VEC) Lane {
    Length at[VEC];
};

// Past the caches of single multiprocessors: others write what is read here.
__device__ __forceinline__ Lane load_lane(const Lane* from) {
#if KIND == 0
    const float4 found = __ldcg((const float4*)from);
    return Lane{{found.x, found.y, found.z, found.w}};
#elif KIND == 1
    const double2 found = __ldcg((const double2*)from);
    return Lane{{found.x, found.y}};
#else
    const longlong2 found = __ldcg((const longlong2*)from);
    return Lane{{found.x, found.y}};
#endif
}

__device__ __forceinline__ Lane lane_of(Length value) {
    Lane all;
#pragma unroll
    for (int k = 0; k < VEC; k++) all.at[k] = value;
    return all;
}

// Lengths that are found are not negative, so their bits order like they do, below those of bounds.
__device__ __forceinline__ void lower(Length* at, Length value) {
#if KIND == 0
    atomicMin((u32*)at, __float_as_uint(value));
#elif KIND == 1
    atomicMin((u64*)at, (u64)__double_as_longlong(value));
#else
    atomicMin((u64*)at, (u64)value);
#endif
}
