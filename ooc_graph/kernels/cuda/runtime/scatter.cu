// An answer by internal id into the order of original ids.
//
// ID is the unsigned type of as many bits as the table of internal ids has, MEASURE that of levels
// or distances.
#include "grid.cuh"

#ifndef MEASURE
#define MEASURE u8
#endif
#ifndef ID
#define ID u32
#endif

// Vertices without a row are those that the table has all ones for.
extern "C" __global__ void to_original(u64 vertices, const ID* internal_of, const u32* parent, const MEASURE* measure,
                                       MEASURE unreached, u32* parent_out, MEASURE* measure_out) {
    for (u64 v = (u64)blockIdx.x * blockDim.x + threadIdx.x; v < vertices; v += (u64)gridDim.x * blockDim.x) {
        ID row = internal_of[v];
        bool none = row == (ID)-1;
        parent_out[v] = none ? 0xFFFFFFFFu : parent[row];
        measure_out[v] = none ? unreached : measure[row];
    }
}
