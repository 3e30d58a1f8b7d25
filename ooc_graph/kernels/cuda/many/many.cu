// Distances from many sources: groups of blocks search one batch of sources after another.
#include "many_answer.cuh"

// `state` holds one barrier a group and is zero before; `out` are rows of distances, or where there
// are `parts` one part a source. `group_blocks` divides the grid.
extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS_A_PROCESSOR)
    many_search(u32 rows, u32 tiles, const u32* tile, const u32* neighbor, const u32* row, const Length* weight,
                u32 sources, const u32* source_row, const Length* source_add, const u32* source_own,
                const Length* source_potential, u32 columns, const u32* column_row, const Length* column_add,
                const Length* column_potential, Length most, const float* to_landmarks, const float* from_landmarks,
                u32 group_blocks, u32 is_kept, Barrier* state, Length* distances, float* reaches, u32* maps, u32* lows,
                u64 parts_capacity, u8* parts, u64 pitch, u8* out) {
    const u32 number = blockIdx.x / group_blocks, groups = gridDim.x / group_blocks, words = (rows + 31) / 32;
    const Graph g = {rows, words, tiles, tile, neighbor, row, weight};
    const Sources s = {sources, source_row, source_add, source_own, source_potential};
    const Columns c = {columns, column_row, column_add, column_potential, most};
    const Landmarks landmarks = {to_landmarks, from_landmarks};
    BlockGroup group = block_group_of(state, group_blocks);
    const Batch batch = {(Lane*)distances + (u64)number * rows * 32, reaches + (u64)number * rows,
                         maps + (u64)number * 3 * words, lows + (u64)number * 3 * rows};
    const Lane* distance = batch.distance;
    Part* pieces = (Part*)parts + number * parts_capacity;
    for (u64 first = (u64)number * SLOTS; first < sources; first += (u64)groups * SLOTS) {
        forget(group, g, landmarks, sources, (u32)first, batch);
        wait(group);
        put_sources(group, s, (u32)first, batch);
        wait(group);
        search_batch(group, g, batch, is_kept);
        tell(group, c, s, (u32)first, distance, parts != nullptr, pieces, out, pitch);
    }
}
