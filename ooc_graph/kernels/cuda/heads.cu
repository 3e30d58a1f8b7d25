// What the searches want to know of rows beside the rows: the first arcs of each in columns.
#include "grid.cuh"

// Weight of an arc that is not there: no sum with it is of use. An infinite float, or the largest integer.
#ifndef INFINITE
#define INFINITE 0x7F800000u
#endif

// extents[0..2]: no row from there on has more than 1, 3, 5 arcs; extents[3]: stretches of
// `stretch` arcs that rows have behind their first `lane_arcs`. Zeros before.
extern "C" __global__ void row_extents(u32 rows, u32 lane_arcs, u32 stretch, const u64* offsets, u64* extents) {
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    u64 longer[3] = {0, 0, 0}, stretches = 0;
    for (u64 v = thread; v < rows; v += threads) {
        const u64 arcs = offsets[v + 1] - offsets[v];
#pragma unroll
        for (int k = 0; k < 3; k++)
            if (arcs > 1 + 2 * k) longer[k] = v + 1;
        if (arcs > lane_arcs) stretches += (arcs - lane_arcs + stretch - 1) / stretch;
    }
    for (int step = 16; step; step >>= 1)
#pragma unroll
        for (int k = 0; k < 3; k++) longer[k] = max(longer[k], __shfl_xor_sync(FULL, longer[k], step));
    stretches = warp_sum(stretches);
    if (threadIdx.x % 32) return;
#pragma unroll
    for (int k = 0; k < 3; k++)
        if (longer[k]) atomicMax(extents + k, longer[k]);
    if (stretches) atomicAdd(extents + 3, stretches);
}

// First neighbours; second to fifth of rows below longer1; sixth to ninth, behind those, of rows
// below longer5. NONE where a row has none.
extern "C" __global__ void hub_heads(u32 rows, u32 longer1, u32 longer5, const u64* offsets, const u32* neighbors,
                                     u32* head, u32* heads) {
    const u64 v = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= rows) return;
    const u64 first = offsets[v], arcs = offsets[v + 1] - first;
    head[v] = arcs ? neighbors[first] : NONE;
    for (u32 k = 1; k < 5 && v < longer1; k++) heads[4 * v + k - 1] = arcs > k ? neighbors[first + k] : NONE;
    for (u32 k = 5; k < 9 && v < longer5; k++)
        heads[4 * (longer1 + v) + k - 5] = arcs > k ? neighbors[first + k] : NONE;
}

// First neighbour and weight of each row; second weight, second and third arc of rows below
// longer1; fourth and fifth arc of rows below longer3. Infinite weights where a row has none.
extern "C" __global__ void light_heads(u32 rows, u32 longer1, u32 longer3, const u64* offsets, const u32* neighbors,
                                       const u32* weights, uint2* head, u32* second, uint2* pair, uint2* pair2) {
    const u64 v = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= rows) return;
    const u64 first = offsets[v], arcs = offsets[v + 1] - first;
    auto arc = [&](u32 k) {
        return arcs > k ? make_uint2(neighbors[first + k], weights[first + k]) : make_uint2(0, INFINITE);
    };
    head[v] = arc(0);
    if (v < longer1) {
        second[v] = arc(1).y;
        pair[2 * v] = arc(1);
        pair[2 * v + 1] = arc(2);
    }
    if (v < longer3) {
        pair2[2 * v] = arc(3);
        pair2[2 * v + 1] = arc(4);
    }
}

// Weight of each row's first arc, infinite where it has none.
extern "C" __global__ void first_weights(u32 rows, const u64* offsets, const u32* weights, u32* lightest) {
    const u64 v = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < rows) lightest[v] = offsets[v] < offsets[v + 1] ? weights[offsets[v]] : INFINITE;
}
