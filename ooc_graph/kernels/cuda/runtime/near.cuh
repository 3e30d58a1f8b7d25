// Rows in host memory, of which the first arcs of each are on the device too.
#pragma once
#include "grid.cuh"

// A row's arcs up to `limit` are on the device, `shift` positions on from where the rows have them.
struct Near {
    u64 limit, shift;
};

// starts (rows + 1,): where the arcs of each row begin that are on the device.
__device__ __forceinline__ Near near_of(const u32* starts, const u64* offsets, u32 row) {
    const u64 first = __ldg(offsets + row), begin = __ldg(starts + row), end = __ldg(starts + row + 1);
    return {first + (end - begin), begin - first};
}

template <typename Word>
__device__ __forceinline__ Word arc_word(const Near& near, const Word* near_words, const Word* outside, u64 at) {
    return __ldg(at < near.limit ? near_words + (at + near.shift) : outside + at);
}
