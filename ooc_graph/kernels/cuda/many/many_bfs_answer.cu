// Levels of a batch of BFS as rows of the answer, one a source.
#include "many_bfs_state.cuh"

// Column c has the level of row[c], `far` where that is NONE, not reached or beyond `most`. A thread
// has a column: threads beside each other write beside each other.
extern "C" __global__ void write_levels(u32 rows, u32 sources, u64 columns, const u32* row_of, const u64* seen,
                                        const u64* planes, const BatchReport* report, int most, int far,
                                        u64 pitch, int* out) {
    const u32 used = 32 - __clz(report->depth);
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 column = (u64)blockIdx.x * blockDim.x + threadIdx.x; column < columns; column += threads) {
        const u32 row = row_of[column];
        for (u32 half = 0; half < HALVES && half * 32 < sources; half++) {
            const u64 at = (u64)row * HALVES + half;
            const u32 reached = row == NONE ? 0 : ((const u32*)seen)[at];
            int level[32] = {};
            for (u32 plane = 0; reached && plane < used; plane++) {
                const u32 bits = ((const u32*)planes)[(u64)plane * rows * HALVES + at];
#pragma unroll
                for (int k = 0; k < 32; k++) level[k] |= (bits >> k & 1) << plane;
            }
#pragma unroll
            for (int k = 0; k < 32; k++) {
                const u32 source = half * 32 + k;
                if (source < sources) out[source * pitch + column] = reached >> k & 1 && level[k] <= most ? level[k] : far;
            }
        }
    }
}
