// Arcs of rows of which only the first ones, the heads, are within the device's reach.
#pragma once
#include "arcs.cuh"

// As the host lays it out: addresses, and a number.
struct Heads {
    const u32* starts; // (rows + 1,): the head of row r is arcs [starts[r], starts[r + 1])
    const u32* longer; // bitmap of the rows that have more arcs than their heads
    u32* near_neighbors; // arcs [0, split), in device memory
    float* near_weights;
    u32* far_neighbors; // arcs from `split` on, in pinned host memory
    float* far_weights;
    u64 split; // a row begins there, or all end
};

__device__ __forceinline__ Arcs head_of(const Heads& heads, u32 row) {
    const u64 start = heads.starts[row];
    const u32 count = (u32)(heads.starts[row + 1] - start);
    if (start < heads.split) return {heads.near_neighbors + start, heads.near_weights + start, count};
    return {heads.far_neighbors + (start - heads.split), heads.far_weights + (start - heads.split), count};
}

// Notes a row that goes on beyond its head; whole warps call it.
__device__ __forceinline__ void note_longer(const Heads& heads, u32 row, bool goes, u32* more, u64* counts) {
    if (threadIdx.x % 32 || !goes || !has(heads.longer, row)) return;
    put(more, row);
    atomicAdd(counts + KEPT, (u64)1);
}
