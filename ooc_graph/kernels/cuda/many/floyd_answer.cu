// Rows of the answer, or reductions of them, from a matrix that holds all distances already.
#include "floyd.cuh"
#include "many_answer.cuh"

// Distances of a batch of sources, as `many_search` would leave them.
__device__ __forceinline__ void take_batch(const BlockGroup& group, const Sources& s, u32 first, u32 rows,
                                           const int* matrix, u64 side, Lane* distance) {
    const u32 lane = threadIdx.x % 32;
    u32 from[VEC];
    Length add[VEC];
#pragma unroll
    for (int k = 0; k < VEC; k++) {
        const u32 source = first + lane * VEC + k;
        from[k] = source < s.count ? s.row[source] : NONE;
        add[k] = source < s.count ? s.add[source] : 0;
    }
    for (u32 row = group.warp; row < rows; row += group.warps) {
        Lane found;
#pragma unroll
        for (int k = 0; k < VEC; k++) {
            const int length = from[k] == NONE ? TOP_SUM : __ldg(matrix + row * side + from[k]);
            found.at[k] = length == TOP_SUM ? TOP : length + add[k];
        }
        distance[(u64)row * 32 + lane] = found;
    }
}

// As `many_search` of `many.cu`, from a matrix that holds the distances already.
extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS_A_PROCESSOR)
    floyd_answers(u32 rows, const int* matrix, u64 side, u32 sources, const u32* source_row, const Length* source_add,
                  const u32* source_own, const Length* source_potential, u32 columns, const u32* column_row,
                  const Length* column_add, const Length* column_potential, Length most, u32 group_blocks, Barrier* state,
                  Length* distances, u64 parts_capacity, u8* parts, u64 pitch, u8* out) {
    const u32 number = blockIdx.x / group_blocks, groups = gridDim.x / group_blocks;
    const Sources s = {sources, source_row, source_add, source_own, source_potential};
    const Columns c = {columns, column_row, column_add, column_potential, most};
    BlockGroup group = block_group_of(state, group_blocks);
    Lane* distance = (Lane*)distances + (u64)number * rows * 32;
    Part* pieces = (Part*)parts + number * parts_capacity;
    for (u64 first = (u64)number * SLOTS; first < sources; first += (u64)groups * SLOTS) {
        take_batch(group, s, (u32)first, rows, matrix, side, distance);
        wait(group);
        tell(group, c, s, (u32)first, distance, parts != nullptr, pieces, out, pitch);
    }
}
