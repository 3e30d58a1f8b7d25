// SSSP steps of one rank of many that has the distances of its own rows alone. Compiled for one type of
// distances, one of weights and one of ids. The queue's kernels take rows for vertices of one shard.
//
// Of several candidates for a vertex the shortest counts, of equal ones that whose parent is nearest, and of
// these the smallest parent. Three numbers do not fit one word: three passes over the same candidates, which do
// not change meanwhile, find one number each. A pass that finds a better one forgets those that go with the worse.
#include "sssp_rank.cuh"
#include "sssp_rank_queue.cuh"
#include "table.cuh"

enum Pass { LENGTHS, NEARS, PARENTS };

// What is known of a row or a target: its distance, that of its parent (`top`: none), and the parent.
struct Best {
    DIST* distance;
    DIST* near;
    VERTEX* parent;

    // One pass for a candidate by `u`, which is `away`; whether the distance falls, from `before`.
    __device__ __forceinline__ bool take(u32 pass, u64 at, DIST candidate, DIST away, VERTEX u, DIST top, DIST& before) {
        if (pass == LENGTHS) {
            before = take_least(distance + at, candidate);
            if (candidate >= before) return false;
            near[at] = top;
            parent[at] = NO_VERTEX;
            return true;
        }
        if (candidate != distance[at]) return false;
        if (pass == PARENTS) {
            if (away == near[at]) atomicMin(parent + at, u);
        } else if (away < take_least(near + at, away)) {
            parent[at] = NO_VERTEX;
        }
        return false;
    }
};

#define OWN DIST *distance, DIST *near, VERTEX *parent
#define LISTED_BEST DIST *found, DIST *nears, VERTEX *parents

// Offers a row a candidate, and lists it (marked) if its distance falls; whole warps call it. Only parents that
// are nearer than the row count here: others are found along plateaus.
__device__ __forceinline__ void offer(bool real, u32 pass, Best own, u32 row, DIST candidate, DIST away, VERTEX u,
                                      DIST top, u32* marks, VERTEX* improved, u64* counts, u64& again) {
    bool fresh = false;
    if (real && (pass == LENGTHS || away < candidate)) {
        DIST before = top;
        if (own.take(pass, row, candidate, away, u, top, before)) {
            again += before < top;
            fresh = !(atomicOr(marks + (row >> 5), bit_in_word(row)) & bit_in_word(row));
        }
    }
    const VERTEX place = place_in(counts + LISTED, fresh);
    if (fresh) improved[place] = row;
}

// One pass along the arcs [begin, end) of the queue, whose rows were at[entry] when it was made: neighbours from
// first[entry] on, and weights from weighs[entry] on. Targets that are settled are left out; those of other ranks
// go into a table.
extern "C" __global__ void push_owned(u32 pass, u64 begin, u64 end, u32 count, const u64* starts, const u32* queue,
                                      const u64* first, const u64* weighs, const DIST* at, ARCS(VERTEX) neighbors,
                                      ARCS(WEIGHT) weights, u32 shards, u32 shard, const u32* settled, DIST top, OWN,
                                      u32* marks, VERTEX* improved, TABLE, LISTED_BEST, u64* counts) {
    const Best own{distance, near, parent};
    Best listed{found, nears, parents};
    u64 again = 0;
    over_part(count, starts, begin, end, [&](u32 entry, u64 k) {
        VERTEX u = 0, v = 0;
        DIST away = top, candidate = top;
        if (entry != NONE) {
            const u32 row = queue[entry];
            u = internal_of(row, shards, shard);
            away = at[entry];
            v = arcs_of(neighbors, row)[first[entry] + k];
            candidate = path_sum(away, (DIST)arcs_of(weights, row)[weighs[entry] + k], top);
        }
        const bool real = candidate < top && !has(settled, v), mine = real && is_mine(v, shards, shard);
        offer(mine, pass, own, local_of(v, shards), candidate, away, u, top, marks, improved, counts, again);
        u64 slot = 0;
        bool is_new = false;
        if (real && !mine) {
            DIST before;
            slot = slot_of(v, last, keys, is_new);
            listed.take(pass, slot, candidate, away, u, top, before);
        }
        note_slot(slot, is_new, taken, counts);
    });
    add_to(counts + AGAIN, again);
}

// One pass over candidates that came from other ranks.
extern "C" __global__ void take_arrived(u32 pass, u64 count, const VERTEX* target, const DIST* candidates,
                                        const DIST* aways, const VERTEX* from, u32 shards, DIST top, OWN,
                                        u32* marks, VERTEX* improved, u64* counts) {
    const Best own{distance, near, parent};
    u64 again = 0;
    over_lanes(count, [&](u64 i, bool real) {
        const u32 row = real ? local_of(target[i], shards) : 0;
        const DIST candidate = real ? candidates[i] : top, away = real ? aways[i] : top;
        offer(real, pass, own, row, candidate, away, real ? from[i] : 0, top, marks, improved, counts, again);
    });
    add_to(counts + AGAIN, again);
}

// Lists all rows that are reached, as if they had just improved.
extern "C" __global__ void list_reached(u32 rows, const DIST* distance, DIST top, VERTEX* improved, u64* counts) {
    over_lanes(rows, [&](u64 row, bool real) {
        const bool reached = real && distance[row] < top;
        const VERTEX place = place_in(counts + LISTED, reached);
        if (reached) improved[place] = (VERTEX)row;
    });
}

// Bitmap of the rows above `low` and up to `high`; counts those beyond.
extern "C" __global__ void mark_between(u32 rows, u32 words, const DIST* distance, DIST low, DIST high, DIST top,
                                        u32* set, u64* counts) {
    u64 beyond = 0;
    note_rows(words, set, [&](u64 row) {
        const DIST at = row < rows ? distance[row] : low;
        beyond += row < rows && at > high;
        return at > low && at <= high && at < top;
    });
    add_to(counts + LISTED, beyond);
}

// Counts rows beyond the bound that have a neighbour that is settled, a warp a row; stops when there is one.
extern "C" __global__ void find_settled(u32 rows, const u64* offsets, ARCS(VERTEX) neighbors, const DIST* distance,
                                        DIST bound, const u32* settled, u64* counts) {
    const u32 lane = threadIdx.x % 32;
    over_lanes((u64)rows * 32, [&](u64 thread, bool) {
        const u64 row = thread / 32;
        if (distance[row] <= bound || *(volatile u64*)(counts + LISTED)) return;
        const auto mine = arcs_of(neighbors, row);
        for (u64 a = offsets[row] + lane; a < offsets[row + 1]; a += 32) {
            if (!has(settled, mine[a])) continue;
            counts[LISTED] = 1;
            return;
        }
    });
}

// As `find_overflow` of `sssp_rank.cu`: all that is reached is settled.
extern "C" __global__ void find_lost(u32 rows, const u64* offsets, ARCS(VERTEX) neighbors, const DIST* distance,
                                     DIST heaviest, DIST top, const u32* settled, u64* counts) {
    const u32 lane = threadIdx.x % 32;
    u64 lost = 0;
    over_lanes((u64)rows * 32, [&](u64 thread, bool) {
        const u64 row = thread / 32;
        const DIST at = distance[row];
        if (at == top || path_sum(at, heaviest, top) < top) return;
        const auto mine = arcs_of(neighbors, row);
        for (u64 a = offsets[row] + lane; a < offsets[row + 1]; a += 32) lost += !has(settled, mine[a]);
    });
    add_to(counts + LISTED, lost);
}

// Lists the rows with a parent that a plateau may begin behind; counts reached rows without one.
extern "C" __global__ void list_entrances(u32 rows, const u64* offsets, ARCS(WEIGHT) weights, const DIST* distance,
                                          const DIST* near, DIST top, u32* queue, u64* counts) {
    u64 lacking = 0;
    over_lanes(rows, [&](u64 row, bool real) {
        const DIST at = real ? distance[row] : top;
        const bool lacks = at < top && near[row] == top;
        bool enters = false;
        if (at < top && !lacks && offsets[row] < offsets[row + 1])
            enters = path_sum(at, (DIST)arcs_of(weights, row)[offsets[row]], top) == at;
        const VERTEX place = place_in(counts + LISTED, enters);
        if (enters) queue[place] = (u32)row;
        lacking += lacks;
    });
    add_to(counts + KEPT, lacking);
}

// How many arcs of each row lead along its plateau, from first[i] on.
extern "C" __global__ void measure_ties(u32 count, const u32* queue, const u64* offsets, ARCS(WEIGHT) weights,
                                        const DIST* distance, DIST top, VERTEX* taken, u64* first, u64* arcs) {
    over_lanes(count, [&](u64 i, bool real) {
        if (!real) return;
        const u32 row = queue[i];
        const DIST at = distance[row];
        first[i] = offsets[row];
        arcs[i] = first_above(arcs_of(weights, row), offsets[row], offsets[row + 1], at, at, top) - offsets[row];
        taken[row] = (VERTEX)arcs[i];
    });
}

// A row at this distance that lacks a parent takes the smallest that is offered, and is listed; it lacks one until
// the hop ends. Whole warps call it.
__device__ __forceinline__ void accept(bool real, Best own, u32 row, DIST at, VERTEX u, DIST top, u32* solved,
                                       u64* counts) {
    bool fresh = real && own.distance[row] == at && own.near[row] == top;
    fresh = fresh && atomicMin(own.parent + row, u) == NO_VERTEX;
    const VERTEX place = place_in(counts + LISTED, fresh);
    if (fresh) solved[place] = row;
}

// One pass (`LENGTHS`, `PARENTS`) along the arcs [begin, end) of rows that offer themselves along plateaus.
extern "C" __global__ void offer_ties(u32 pass, u64 begin, u64 end, u32 count, const u64* starts, const u32* queue,
                                      const u64* first, ARCS(VERTEX) neighbors, u32 shards, u32 shard, DIST top,
                                      OWN, u32* solved, TABLE, LISTED_BEST, u64* counts) {
    const Best own{distance, near, parent};
    Best listed{found, nears, parents};
    over_part(count, starts, begin, end, [&](u32 entry, u64 k) {
        VERTEX u = 0, v = 0;
        DIST at = top;
        if (entry != NONE) {
            const u32 row = queue[entry];
            u = internal_of(row, shards, shard);
            at = distance[row];
            v = arcs_of(neighbors, row)[first[entry] + k];
        }
        const bool mine = entry != NONE && is_mine(v, shards, shard);
        accept(mine && pass == PARENTS, own, local_of(v, shards), at, u, top, solved, counts);
        u64 slot = 0;
        bool is_new = false;
        if (entry != NONE && !mine) {
            DIST before;
            slot = slot_of(v, last, keys, is_new);
            if (pass == LENGTHS) listed.take(pass, slot, at, top, u, top, before);
            else if (listed.distance[slot] == at) atomicMin(listed.parent + slot, u);
        }
        note_slot(slot, is_new, taken, counts);
    });
}

extern "C" __global__ void take_ties(u64 count, const VERTEX* target, const DIST* at, const VERTEX* from, u32 shards,
                                     DIST top, OWN, u32* solved, u64* counts) {
    const Best own{distance, near, parent};
    over_lanes(count, [&](u64 i, bool real) {
        accept(real, own, real ? local_of(target[i], shards) : 0, real ? at[i] : top, real ? from[i] : 0, top, solved,
               counts);
    });
}

// Rows that found a parent in this hop lack none from now on.
extern "C" __global__ void end_hop(u32 count, const u32* solved, const DIST* distance, DIST* near) {
    over_lanes(count, [&](u64 i, bool real) {
        if (real) near[solved[i]] = distance[solved[i]];
    });
}
