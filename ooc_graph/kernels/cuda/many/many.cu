// Distances from many sources: crews of blocks search one batch of sources after another.
#include "many_answer.cuh"

// `state` holds one barrier a crew and is zero before; `out` are rows of distances, or where there
// are `parts` one part a source. `crew_blocks` divides the grid.
extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS_A_PROCESSOR)
    many_search(u32 rows, u32 tiles, const u32* tile, const u32* neighbor, const u32* row, const Length* weight,
                u32 sources, const u32* source_row, const Length* source_add, const u32* source_own,
                const Length* source_potential, u32 columns, const u32* column_row, const Length* column_add,
                const Length* column_potential, Length most, const float* ways_to, const float* ways_away,
                u32 crew_blocks, u32 is_kept, Barrier* state, Length* distances, float* reaches, u32* maps, u32* lows,
                u64 parts_room, u8* parts, u64 pitch, u8* out) {
    const u32 group = blockIdx.x / crew_blocks, groups = gridDim.x / crew_blocks, words = (rows + 31) / 32;
    const Graph g = {rows, words, tiles, tile, neighbor, row, weight};
    const Sources s = {sources, source_row, source_add, source_own, source_potential};
    const Columns c = {columns, column_row, column_add, column_potential, most};
    const Ways ways = {ways_to, ways_away};
    Crew crew = crew_of(state, crew_blocks);
    const Batch batch = {(Lane*)distances + (u64)group * rows * 32, reaches + (u64)group * rows,
                         maps + (u64)group * 3 * words, lows + (u64)group * 3 * rows};
    const Lane* distance = batch.distance;
    Part* stretches = (Part*)parts + group * parts_room;
    for (u64 first = (u64)group * LANES; first < sources; first += (u64)groups * LANES) {
        forget(crew, g, ways, sources, (u32)first, batch);
        wait(crew);
        place_sources(crew, s, (u32)first, batch);
        wait(crew);
        search_batch(crew, g, batch, is_kept);
        tell(crew, c, s, (u32)first, distance, parts != nullptr, stretches, out, pitch);
    }
}
