// BFS steps of one rank of many along arcs that were fetched from the store, behind those along the heads of
// the rows. A warp a request; a flag says that its row wants more.
#include "arcs.cuh"
#include "table.cuh"

#define FETCHED u32 count, const u32 *requests, const VERTEX *neighbors, u8 *flags
#define FETCHED_ARCS count, requests, neighbors

// Whole warps call `visit(index, row, arcs, asked)` for each of the requests [first, until).
template <typename Visit>
__device__ __forceinline__ void over_some(u32 first, u32 until, u32 count, const u32* requests,
                                          const VERTEX* neighbors, Visit visit) {
    for (u64 at = first + warp_of_grid(); at < until; at += warps_of_grid()) {
        const u32 index = (u32)at;
        visit(index, request_word(requests, count, ROW, index),
              neighbors + request_word(requests, count, NEIGHBORS_AT, index),
              request_word(requests, count, ASKED, index));
    }
}

// As `over_some`, for all of them.
template <typename Visit>
__device__ __forceinline__ void over_fetched(u32 count, const u32* requests, const VERTEX* neighbors, Visit visit) {
    over_some(0, count, count, requests, neighbors, visit);
}

// Copies arcs to the heads of their rows, as far as these go.
extern "C" __global__ void hold_fetched(FETCHED, const u64* offsets, VERTEX* heads) {
    over_fetched(FETCHED_ARCS, [&](u32 index, u32 row, const VERTEX* arcs, u32 asked) {
        copy_to_head(arcs, asked, request_word(requests, count, CURSOR, index), offsets, row, heads);
        if (threadIdx.x % 32 == 0) flags[index] = 1;
    });
}

// As `push_rows` of `bfs_rank.cu`, along the arcs [begin, end) of the requests [first, last).
extern "C" __global__ void push_fetched(FETCHED, u32 first, u32 until, u32 begin, u32 end, u32 shards, u32 shard,
                                        const u32* visited, TABLE, VERTEX* best, u64* counts) {
    const u32 lane = threadIdx.x % 32;
    over_some(first, until, FETCHED_ARCS, [&](u32 index, u32 row, const VERTEX* arcs, u32 asked) {
        const VERTEX by = internal_of(row, shards, shard);
        const u32 stop = min(asked, end);
        for (u32 at = begin; at < stop; at += 32) {
            const bool real = at + lane < stop;
            const VERTEX v = real ? arcs[at + lane] : 0;
            u64 slot = 0;
            bool is_new = false;
            if (real && !has(visited, v)) {
                slot = slot_of(v, last, keys, is_new);
                atomicMin(best + slot, by);
            }
            note_slot(slot, is_new, taken, counts);
        }
        if (lane == 0) flags[index] = 1;
    });
}

// As `pull_rows` of `bfs_rank.cu`, of rows that found nobody along their heads.
extern "C" __global__ void pull_fetched(FETCHED, const u64* out_offsets, const u32* frontier, int depth, u32* visited,
                                        u32* found, VERTEX* parent, int* level, u64* counts) {
    const u32 lane = threadIdx.x % 32;
    u64 rows = 0, out_arcs = 0, examined = 0;
    over_fetched(FETCHED_ARCS, [&](u32 index, u32 row, const VERTEX* arcs, u32 asked) {
        VERTEX by = NO_VERTEX;
        const u64 looked = look_for(by, frontier, arcs, 0, asked);
        if (lane) return;
        examined += looked;
        flags[index] = by == NO_VERTEX;
        if (by == NO_VERTEX) return;
        parent[row] = by;
        level[row] = depth;
        put(visited, row);
        put(found, row);
        rows++;
        out_arcs += out_offsets[row + 1] - out_offsets[row];
    });
    add_to(counts + LISTED, rows);
    add_to(counts + ARCS, out_arcs);
    add_to(counts + EXAMINED, examined);
}
