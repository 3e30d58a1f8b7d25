// Parents of the rows of one shard of many, from the final distances; those on plateaus hop by hop.
#pragma once
#include "sssp_rank.cuh"

// How many arcs of each row may lead to its parent: those not heavier than its distance.
extern "C" __global__ void measure_rows(u32 rows, u32 shards, u32 shard, const u64* offsets, ARCS(WEIGHT) weights,
                                        const DIST* distance, VERTEX root, DIST top, u64* arcs, DIST* nearest,
                                        VERTEX* parent, u64* counts) {
    u64 examined = 0;
    over_lanes(rows, [&](u64 row, bool real) {
        if (!real) return;
        const VERTEX v = internal_of((u32)row, shards, shard);
        const DIST at = distance[v];
        const u64 begin = offsets[row];
        const bool looks = v != root && at < top;
        arcs[row] = looks ? first_above(arcs_of(weights, row), begin, offsets[row + 1], (DIST)0, at, top) - begin : 0;
        nearest[row] = at;
        parent[row] = v == root ? v : NO_VERTEX;
        examined += arcs[row];
    });
    add_to(counts + EXAMINED, examined);
}

// Two steps over all arcs that may lead to a parent: how near the nearest neighbour on a shortest
// path is to the root; the smallest id of those that near.
extern "C" __global__ void offer_parents(u32 rows, const u64* starts, u32 shards, u32 shard, const u64* offsets,
                                         ARCS(VERTEX) neighbors, ARCS(WEIGHT) weights, const DIST* distance, DIST top,
                                         u32 choose, DIST* nearest, VERTEX* parent) {
    over_shares(rows, starts, [&](u32 row, u64 k) {
        if (row == NONE) return;
        const u64 arc = offsets[row] + k;
        const VERTEX u = arcs_of(neighbors, row)[arc];
        const DIST at = distance[internal_of(row, shards, shard)], away = distance[u];
        if (away >= at || path_sum(away, (DIST)arcs_of(weights, row)[arc], top) != at) return;
        if (!choose) take_least(nearest + row, away);
        else if (away == nearest[row]) atomicMin(parent + row, u);
    });
}

// Lists reached rows that have no parent, and what they are called.
extern "C" __global__ void list_left(u32 rows, u32 shards, u32 shard, const DIST* distance, DIST top,
                                     const VERTEX* parent, u32* left, VERTEX* ids, u64* counts) {
    over_lanes(rows, [&](u64 row, bool real) {
        const VERTEX v = real ? internal_of((u32)row, shards, shard) : 0;
        const bool lacks = real && distance[v] < top && parent[row] == NO_VERTEX;
        const VERTEX place = place_in(counts + LISTED, lacks);
        if (!lacks) return;
        left[place] = (u32)row;
        ids[place] = v;
    });
}

// Rows on plateaus take the smallest neighbour at the same distance that does not wait for a
// parent; a warp a row. Lists those that had one, and those that had none.
extern "C" __global__ void resolve_rows(u64 count, const u32* left, u32 shards, u32 shard, const u64* offsets,
                                        ARCS(VERTEX) neighbors, ARCS(WEIGHT) weights, const DIST* distance, DIST top,
                                        const u32* waiting, VERTEX* parent, u32* kept, VERTEX* solved, u64* counts) {
    const u32 lane = threadIdx.x % 32;
    over_lanes(count * 32, [&](u64 thread, bool) {
        const u32 row = left[thread / 32];
        const VERTEX v = internal_of(row, shards, shard);
        const DIST at = distance[v];
        const u64 end = offsets[row + 1];
        const auto my_neighbors = arcs_of(neighbors, row);
        const auto my_weights = arcs_of(weights, row);
        VERTEX by = NO_VERTEX;
        bool goes = true;
        for (u64 a = offsets[row] + lane; a - lane < end && __all_sync(FULL, goes); a += 32) {
            goes = a < end && path_sum(at, (DIST)my_weights[a], top) <= at;
            const VERTEX u = goes ? my_neighbors[a] : NO_VERTEX;
            if (goes && distance[u] == at && !has(waiting, u)) by = min(by, u);
        }
        by = warp_least(by);
        const bool there = by != NO_VERTEX;
        const VERTEX place = place_in(counts + EMITTED, lane == 0 && there);
        const VERTEX behind = place_in(counts + KEPT, lane == 0 && !there);
        if (lane) return;
        if (there) {
            parent[row] = by;
            solved[place] = v;
        } else {
            kept[behind] = row;
        }
    });
}
