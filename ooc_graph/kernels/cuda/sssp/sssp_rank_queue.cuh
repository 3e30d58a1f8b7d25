// Rows that are to be pushed below a bound, and those that wait for a higher one.
#pragma once
#include "sssp_rank.cuh"

// Queues the own rows among those improved; they begin with their first arc again.
extern "C" __global__ void queue_improved(u64 count, const VERTEX* improved, u32 shards, u32 shard,
                                          VERTEX* taken, u32* queued, u32* queue, u64* counts) {
    over_lanes(count, [&](u64 i, bool real) {
        const VERTEX v = real ? improved[i] : 0;
        const u32 row = local_of(v, shards);
        const bool mine = real && is_mine(v, shards, shard);
        const VERTEX place = place_in(counts + LISTED, mine);
        if (!mine) return;
        taken[row] = 0;
        atomicOr(queued + (row >> 5), bit_in_word(row));
        queue[place] = row;
    });
}

// Queues the waiting rows whose next candidate is not above the bound, and keeps the others, of
// which those that are queued already are dropped.
extern "C" __global__ void queue_waiting(u64 count, const u32* waiting, u32 shards, u32 shard, const u64* offsets,
                                         ARCS(WEIGHT) weights, const DIST* distance, DIST bound, DIST top,
                                         const VERTEX* taken, const u32* queued, u32* queue, u32* kept, u64* counts) {
    DIST low = top;
    over_lanes(count, [&](u64 i, bool real) {
        bool goes = false, stays = false;
        const u32 row = real ? waiting[i] : 0;
        if (real && !has(queued, row)) {
            const WEIGHT weight = arcs_of(weights, row)[offsets[row] + taken[row]];
            const DIST candidate = path_sum(distance[internal_of(row, shards, shard)], (DIST)weight, top);
            goes = candidate <= bound;
            stays = !goes;
            if (stays) low = min(low, candidate);
        }
        const VERTEX place = place_in(counts + LISTED, goes), behind = place_in(counts + KEPT, stays);
        if (goes) queue[place] = row;
        if (stays) kept[behind] = row;
    });
    keep_least(counts + LEAST, low);
}

// Measures how many arcs of each queued row have candidates up to the bound: arcs[i], from position
// first[i] on. Rows with arcs beyond wait.
extern "C" __global__ void measure_queue(const u32* queue, u32 shards, u32 shard, const u64* offsets,
                                         ARCS(WEIGHT) weights, const DIST* distance, DIST bound, DIST top,
                                         VERTEX* taken, u32* queued, u32* kept, u64* first, u64* arcs, u64* counts) {
    DIST low = top;
    u64 examined = 0;
    over_lanes(counts[LISTED], [&](u64 i, bool real) {
        bool stays = false;
        u32 row = 0;
        if (real) {
            row = queue[i];
            const u64 begin = offsets[row], end = offsets[row + 1], from = begin + taken[row];
            const DIST at = distance[internal_of(row, shards, shard)];
            const auto mine = arcs_of(weights, row);
            const u64 stop = first_above(mine, from, end, at, bound, top);
            atomicAnd(queued + (row >> 5), ~bit_in_word(row));
            first[i] = from;
            arcs[i] = stop - from;
            examined += stop - from;
            taken[row] = (VERTEX)(stop - begin);
            stays = stop < end;
            if (stays) low = min(low, path_sum(at, (DIST)mine[stop], top));
        }
        const VERTEX place = place_in(counts + KEPT, stays);
        if (stays) kept[place] = row;
    });
    add_to(counts + EXAMINED, examined);
    keep_least(counts + LEAST, low);
}
