// What is asked of rows in host memory, in sectors of 32 bytes, eight words: the least that a device
// fetches over the bus. Counted by block, in shared memory, and added up when the launch ends. Words
// that lanes of a warp ask for together count by the sectors they lie in; whoever asks again counts
// again, though a cache may answer. Without BUS nothing of this is compiled.
#pragma once
#include "grid.cuh"

#ifndef BUS
#define BUS 0
#endif

#if BUS
#define SECTOR_WORDS 8

// Enough for 137 GB a block and launch, minutes of what a bus carries to all of them.
__shared__ u32 asked_sectors;

// Words [begin, end) of an array, asked for by a whole warp.
__device__ __forceinline__ void ask_span(u64 begin, u64 end) {
    if (threadIdx.x % 32 || begin >= end) return;
    atomicAdd(&asked_sectors, (u32)((end + SECTOR_WORDS - 1) / SECTOR_WORDS - begin / SECTOR_WORDS));
}

// A word of each lane that is here, at the same place of one array or more. Lanes that come apart count
// apart: never too few. Sectors count as one where 2**35 words lie between them.
__device__ __forceinline__ void ask_together(u64 at, u32 arrays = 1) {
    const u32 same = __match_any_sync(__activemask(), (u32)(at / SECTOR_WORDS));
    if (threadIdx.x % 32 == __ffs(same) - 1) atomicAdd(&asked_sectors, arrays);
}

// A word of a thread that goes through a row by itself, from its `first` on.
__device__ __forceinline__ void ask_in_turn(u64 at, u64 first) {
    if (at == first || at % SECTOR_WORDS == 0) atomicAdd(&asked_sectors, 1u);
}

// Before the first barrier of the grid.
__device__ __forceinline__ void begin_asking() {
    if (threadIdx.x == 0) asked_sectors = 0;
}

__device__ __forceinline__ void end_asking(u64* sum) {
    __syncthreads();
    if (threadIdx.x == 0 && asked_sectors) atomicAdd(sum, (u64)asked_sectors);
}

#define BUS_ONLY(...) __VA_ARGS__
#else
#define BUS_ONLY(...)
#endif
