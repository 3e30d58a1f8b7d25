// What the searches want to know of rows in addition to them: the first arcs of each in columns.
#include "grid.cuh"

// Weight of an arc that is not there: no sum with it is of use. An infinite float, or the largest integer.
#ifndef INFINITE
#define INFINITE 0x7F800000u
#endif

// A word of a column of the arcs, for the kernel that copies such words.
#ifndef WORD
#define WORD u32
#endif

// Where rows begin, for those kernels that are also given shares of them.
#ifndef OFFSET
#define OFFSET u64
#endif

// extents[0..2]: no row from there on has more than 1, 3, 5 arcs; extents[3]: pieces of
// `piece` arcs that rows have behind their first `lane_arcs`. Zeros before.
extern "C" __global__ void row_extents(u32 rows, u32 lane_arcs, u32 piece, const u64* offsets, u64* extents) {
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    u64 longer[3] = {0, 0, 0}, pieces = 0;
    for (u64 v = thread; v < rows; v += threads) {
        const u64 arcs = offsets[v + 1] - offsets[v];
#pragma unroll
        for (int k = 0; k < 3; k++)
            if (arcs > 1 + 2 * k) longer[k] = v + 1;
        if (arcs > lane_arcs) pieces += (arcs - lane_arcs + piece - 1) / piece;
    }
    for (int step = 16; step; step >>= 1)
#pragma unroll
        for (int k = 0; k < 3; k++) longer[k] = max(longer[k], __shfl_xor_sync(FULL, longer[k], step));
    pieces = warp_sum(pieces);
    if (threadIdx.x % 32) return;
#pragma unroll
    for (int k = 0; k < 3; k++)
        if (longer[k]) atomicMax(extents + k, longer[k]);
    if (pieces) atomicAdd(extents + 3, pieces);
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

// found[k]: no row from there on has more than 1 + 4 * k arcs. Zeros before.
extern "C" __global__ void column_rows(u32 rows, u32 columns, const u64* offsets, u32* found) {
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    u32 longer[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (u64 v = thread; v < rows; v += threads) {
        const u64 arcs = offsets[v + 1] - offsets[v];
#pragma unroll
        for (u32 k = 0; k < 8; k++)
            if (arcs > 1 + 4 * k) longer[k] = (u32)v + 1;
    }
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        const u32 most = __reduce_max_sync(FULL, longer[k]);
        if (threadIdx.x % 32 == 0 && k < columns && most) atomicMax(found + k, most);
    }
}

// First neighbours, and behind them columns of four of the rows below column[k].y, the first of which
// begins at column[k].x; seven columns at most. NONE where a row has none. A warp takes a row: what it
// reads may lie in host memory.
extern "C" __global__ void hub_columns(u32 rows, u32 columns, const uint2* column, const u64* offsets,
                                       const u32* neighbors, u32* head, u32* heads) {
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, warps = (u64)gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32, k = (lane - 1) / 4;
    uint2 mine = make_uint2(0, 0);
    if (lane && k < columns) mine = column[k];
    for (u64 v = thread / 32; v < rows; v += warps) {
        const u64 first = offsets[v], arcs = offsets[v + 1] - first;
        const u32 neighbor = lane < arcs && lane <= 4 * columns ? neighbors[first + lane] : NONE;
        if (lane == 0) head[v] = neighbor;
        if (v < mine.y) heads[4 * (mine.x + v) + (lane - 1) % 4] = neighbor;
    }
}

// First neighbour and weight of each row; second weight, second and third arc of rows below
// longer1; fourth and fifth arc of rows below longer3. Infinite weights where a row has none.
extern "C" __global__ void light_heads(u32 rows, u32 longer1, u32 longer3, const OFFSET* offsets, const u32* neighbors,
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

// Arcs of each row that are kept: `least`, and one in 1 << share_bits of them.
extern "C" __global__ void share_counts(u32 rows, u32 least, u32 share_bits, const u64* offsets, u32* counts) {
    const u64 v = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= rows) return;
    const u64 arcs = offsets[v + 1] - offsets[v];
    counts[v] = (u32)min(arcs, least + (share_bits < 64 ? arcs >> share_bits : 0));
}

// Copies the first starts[v + 1] - starts[v] words of each row, a warp each: what it reads may lie in
// host memory.
extern "C" __global__ void hold_shares(u32 rows, const u32* starts, const u64* offsets, const WORD* words, WORD* kept) {
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, warps = (u64)gridDim.x * blockDim.x / 32;
    for (u64 v = thread / 32; v < rows; v += warps) {
        const u32 begin = starts[v], count = starts[v + 1] - begin;
        const u64 first = offsets[v];
        for (u32 k = threadIdx.x % 32; k < count; k += 32) kept[(u64)begin + k] = words[first + k];
    }
}

// Weight of each row's first arc, infinite where it has none.
extern "C" __global__ void first_weights(u32 rows, const OFFSET* offsets, const u32* weights, u32* lightest) {
    const u64 v = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < rows) lightest[v] = offsets[v] < offsets[v + 1] ? weights[offsets[v]] : INFINITE;
}

// Four arcs of a row in each plane that has it: a row below longer[k] has more than 4 * k. The k-th plane
// begins at starts[k]. In the upper bits of a neighbour stands how many planes beyond the first its own
// row takes, seven at most. NONE where a row has no more.
extern "C" __global__ void fix_short_rows(u32 rows, u32 planes, const u32* longer, const u32* starts,
                                          const u64* offsets, const u32* neighbors, u32* fixed_rows) {
    const u64 v = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= rows) return;
    const u64 first = offsets[v], arcs = offsets[v + 1] - first;
    for (u32 k = 0; k < planes && v < longer[k]; k++)
        for (u32 j = 4 * k; j < 4 * k + 4; j++) {
            u32 arc = NONE;
            if (j < arcs) {
                const u32 to = neighbors[first + j];
                const u64 theirs = offsets[to + 1] - offsets[to];
                arc = to | (theirs ? (u32)min((theirs - 1) / 4, 7ull) : 0u) << 29;
            }
            fixed_rows[4 * (starts[k] + v) + j % 4] = arc;
        }
}
