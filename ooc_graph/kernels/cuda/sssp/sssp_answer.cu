// What is done with the lengths once a search is through.
#include "sssp_sums.cuh"

// Sets `lost` if a reached row has an out-neighbour that is not: only a sum that is too long does so,
// and only of a length to which the heaviest weight cannot be added.
extern "C" __global__ void find_overflow(u32 rows, Weight heaviest, const u64* offsets, const u32* neighbors,
                                         const Length* length, u32* lost) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    for (u64 first = (u64)warp * 32; first < rows; first += (u64)warps * 32) {
        const Length at = first + lane < rows ? length[first + lane] : UNREACHED;
        u32 near_the_top = __ballot_sync(FULL, at != UNREACHED && sum_of(at, heaviest) == UNREACHED);
        for (; near_the_top; near_the_top &= near_the_top - 1) {
            const u64 v = first + __ffs(near_the_top) - 1;
            for (u64 arc = offsets[v] + lane; arc < offsets[v + 1]; arc += 32)
                if (length[neighbors[arc]] == UNREACHED) *lost = 1;
        }
    }
}

#if INTEGERS && !WIDE
// Distances of 64 bits from lengths of 32.
extern "C" __global__ void widen(u32 rows, const u32* length, long long* distance) {
    const u64 v = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < rows) distance[v] = length[v] == UNREACHED ? 0x7FFFFFFFFFFFFFFFll : (long long)length[v];
}
#endif
