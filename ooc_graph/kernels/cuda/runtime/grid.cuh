// What kernels share: words, a barrier over all blocks of a cooperative grid, sums over warps and blocks.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define NONE 0xFFFFFFFFu
#define FULL 0xFFFFFFFFu
// Whether rows stand in host memory, and only what is read most of them on the device too.
#ifndef TIERED
#define TIERED 0
#endif

__device__ __forceinline__ u32 load_acquire(const u32* at) {
    u32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

__device__ __forceinline__ u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// Zero before the first launch and after each: the last block to leave resets it.
struct Barrier {
    u32 arrived;
    u32 left;
};

// So many blocks wait for each other, once the threads of each have done so; what they wrote before is seen
// by all after. `goal` is the caller's own count and starts at 0. The launch must be cooperative.
__device__ __forceinline__ void block_barrier(Barrier* barrier, u32& goal, u32 blocks) {
    goal += blocks;
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&barrier->arrived, 1u);
        while ((int)(load_acquire(&barrier->arrived) - goal) < 0) {
        }
        __threadfence();
    }
    __syncthreads();
}

// As `block_barrier`, of all blocks of the grid.
__device__ __forceinline__ void grid_barrier(Barrier* barrier, u32& goal) {
    __syncthreads();
    block_barrier(barrier, goal, gridDim.x);
}

__device__ __forceinline__ void leave_grid(Barrier* barrier) {
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(&barrier->left, 1u) == gridDim.x - 1) {
        barrier->arrived = 0;
        barrier->left = 0;
    }
}

// What an internal id is called in the answer.
template <typename Graph>
__device__ __forceinline__ u32 name_of(const Graph& g, u32 vertex) {
    return g.original_of ? __ldg(g.original_of + vertex) : vertex;
}

// Lengths and weights as floats.
__device__ __forceinline__ float rounded_down(float length) { return length; }
__device__ __forceinline__ float rounded_down(double length) { return __double2float_rd(length); }
__device__ __forceinline__ float rounded_down(i64 length) { return __ll2float_rd(length); }
__device__ __forceinline__ float rounded_up(float length) { return length; }
__device__ __forceinline__ float rounded_up(double length) { return __double2float_ru(length); }
__device__ __forceinline__ float rounded_up(i64 length) { return __ll2float_ru(length); }

__device__ __forceinline__ u64 warp_sum(u64 value) {
    for (int step = 16; step; step >>= 1) value += __shfl_xor_sync(FULL, value, step);
    return value;
}

// Sum of the lanes up to and with this one.
template <typename Number>
__device__ __forceinline__ Number sum_to_lane(Number value) {
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        Number below = __shfl_up_sync(FULL, value, step);
        if (threadIdx.x % 32 >= step) value += below;
    }
    return value;
}

// The first of `mine` places for this lane, behind all that `taken` counts; the lanes' places follow
// each other. All lanes of a warp call it, if `SURE` with one at least that wants places.
template <bool SURE = false, typename Taken, typename Number>
__device__ __forceinline__ Taken take_places(Taken* taken, Number mine) {
    const Number sum = sum_to_lane(mine);
    Taken base = 0;
    if (threadIdx.x % 32 == 31 && (SURE || sum)) base = atomicAdd(taken, (Taken)sum);
    return __shfl_sync(FULL, base, 31) + sum - mine;
}

// Appends the row of each lane that `takes` to a list; all lanes of a warp call it.
__device__ __forceinline__ void append(u32* list, u32* count, u32 tail, bool takes, u32 row) {
    const u32 lane = threadIdx.x % 32, takers = __ballot_sync(FULL, takes);
    if (!takers) return;
    u32 at = 0;
    if (lane == 0) at = atomicAdd(count, __popc(takers));
    at = __shfl_sync(FULL, at, 0) + __popc(takers & ((1u << lane) - 1));
    if (takes) list[tail + at] = row;
}

// Adds every thread's value to a sum in global memory, one atomic a block.
__device__ __forceinline__ void add_from_block(u64 value, u64* sum, u64* scratch) {
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        u64 total = threadIdx.x < blockDim.x / 32 ? scratch[threadIdx.x] : 0;
        total = warp_sum(total);
        if (threadIdx.x == 0 && total) atomicAdd(sum, total);
    }
}
