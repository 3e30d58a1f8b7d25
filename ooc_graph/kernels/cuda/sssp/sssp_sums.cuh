// Lengths of paths as bits that order like unsigned integers, and how an arc's weight is added.
//
// The host sets WIDE: lengths have 64 bits, not 32; INTEGERS: lengths are integers, and a sum that is
// too long stays at UNREACHED; otherwise they are the bits of floats, from 0 to infinity; and WEIGHT: u32
// or u64, the bits of weights; integer weights may be narrower than lengths.
#pragma once
#include "grid.cuh"

#if WIDE
typedef u64 Length;
typedef double Step;
#if INTEGERS
#define UNREACHED 0x7FFFFFFFFFFFFFFFull
#else
#define UNREACHED 0x7FF0000000000000ull
#endif
#else
typedef u32 Length;
typedef float Step;
#if INTEGERS
#define UNREACHED 0xFFFFFFFFu
#else
#define UNREACHED 0x7F800000u
#endif
#endif

typedef WEIGHT Weight;

__device__ __forceinline__ Length sum_of(Length length, Weight weight) {
#if INTEGERS && WIDE
    return min(length + weight, UNREACHED);
#elif INTEGERS
    const u32 sum = length + weight;
    return sum < length ? UNREACHED : sum;
#elif WIDE
    return __double_as_longlong(__dadd_rn(__longlong_as_double(length), __longlong_as_double(weight)));
#else
    return __float_as_uint(__fadd_rn(__uint_as_float(length), __uint_as_float(weight)));
#endif
}

// A bound `step` above a length; below UNREACHED, so that nothing unreached is within it.
__device__ __forceinline__ Length bound_above(Length length, Step step) {
#if INTEGERS && WIDE
    const Length bound = length + (u64)fmin(step, 9e18);
#elif INTEGERS
    const Length bound = sum_of(length, (u32)fminf(step, 4e9f));
#elif WIDE
    const Length bound = sum_of(length, __double_as_longlong(step));
#else
    const Length bound = sum_of(length, __float_as_uint(step));
#endif
    return min(max(length, bound), UNREACHED - 1);
}

// The nearest of the neighbours that attain a row's length, ties by the smallest id.
struct Best {
    Length away;
    u32 parent;
    __device__ __forceinline__ void take(Length length, u32 row) {
        if (length < away || (length == away && row < parent)) {
            away = length;
            parent = row;
        }
    }
    // Takes neighbour u along an arc of weight w as the parent of a row at `at`, if it is a better one.
    __device__ __forceinline__ void offer(Length at, u32 u, Length length, Weight w) {
        if (length < at && sum_of(length, w) == at) take(length, u);
    }
};
