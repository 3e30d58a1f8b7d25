// SSSP steps on the rows of one shard of many, and the distances of all vertices that the ranks of
// a process share. Compiled for one type of distances, one of weights and one of ids.
#include "sssp_rank.cuh"
#include "sssp_rank_parents.cuh"
#include "sssp_rank_queue.cuh"

// Takes the smaller distances; lists improved vertices once each (marked).
extern "C" __global__ void relax(u64 count, const VERTEX* vertices, const DIST* candidates, DIST* distance,
                                 u32* marks, VERTEX* improved, u64* counts) {
    over_lanes(count, [&](u64 i, bool real) {
        const VERTEX v = real ? vertices[i] : 0;
        bool fresh = false;
        if (real && candidates[i] < take_least(distance + v, candidates[i]))
            fresh = !(atomicOr(marks + (v >> 5), bit_in_word(v)) & bit_in_word(v));
        const VERTEX place = place_in(counts + LISTED, fresh);
        if (fresh) improved[place] = v;
    });
}

// Clears the marks, and finds the smallest improved distance.
extern "C" __global__ void unmark(const VERTEX* improved, const DIST* distance, u32* marks, DIST top, u64* counts) {
    DIST low = top;
    over_lanes(counts[LISTED], [&](u64 i, bool real) {
        if (!real) return;
        const VERTEX v = improved[i];
        marks[v >> 5] = 0; // all bits of the word are to go
        low = min(low, distance[v]);
    });
    keep_least(counts + LEAST, low);
}

extern "C" __global__ void join_waiting(u64 count, const VERTEX* vertices, u32* waiting) {
    over_lanes(count, [&](u64 i, bool real) {
        if (real) atomicOr(waiting + (vertices[i] >> 5), bit_in_word(vertices[i]));
    });
}

extern "C" __global__ void leave_waiting(u64 count, const VERTEX* vertices, u32* waiting) {
    over_lanes(count, [&](u64 i, bool real) {
        if (real) atomicAnd(waiting + (vertices[i] >> 5), ~bit_in_word(vertices[i]));
    });
}

// Lists vertices that candidates of the queue improve, each once; best[v], `top` before, is the
// smallest candidate of v.
extern "C" __global__ void push_arcs(u32 count, const u64* starts, const u32* queue, const u64* first,
                                     ARCS(VERTEX) neighbors, ARCS(WEIGHT) weights, u32 shards, u32 shard,
                                     const DIST* distance, DIST top, DIST* best, VERTEX* target, u64* counts) {
    u64 again = 0;
    over_shares(count, starts, [&](u32 entry, u64 k) {
        VERTEX v = 0;
        bool fresh = false;
        if (entry != NONE) {
            const u64 arc = first[entry] + k;
            const u32 row = queue[entry];
            const DIST at = distance[internal_of(row, shards, shard)];
            const DIST candidate = path_sum(at, (DIST)arcs_of(weights, row)[arc], top);
            v = arcs_of(neighbors, row)[arc];
            const DIST before = distance[v];
            if (candidate < before) {
                again += before < top;
                fresh = take_least(best + v, candidate) == top;
            }
        }
        const VERTEX place = place_in(counts + EMITTED, fresh);
        if (fresh) target[place] = v;
    });
    add_to(counts + AGAIN, again);
}

// Rows beyond `final` look along their lightest arcs for a shorter way, while `floor` and the arc
// are below what they have; a lane begins, and the whole warp goes on with rows that are not done.
// Counts the arcs that a look at one after the other examines.
extern "C" __global__ void pull_rows(u32 rows, u32 shards, u32 shard, const u64* out_offsets, const u64* offsets,
                                     ARCS(VERTEX) neighbors, ARCS(WEIGHT) weights, const DIST* distance, DIST final,
                                     DIST floor, DIST top, VERTEX* target, DIST* found, u64* counts) {
    const u32 lane = threadIdx.x % 32;
    u64 out_arcs = 0, examined = 0;
    over_lanes(rows, [&](u64 row, bool real) {
        const VERTEX v = real ? internal_of((u32)row, shards, shard) : 0;
        const DIST before = real ? distance[v] : top;
        DIST best = before;
        bool open = real && before > final;
        u64 at = open ? offsets[row] : 0;
        const u64 end = open ? offsets[row + 1] : 0;
        const auto my_neighbors = arcs_of(neighbors, open ? row : 0);
        const auto my_weights = arcs_of(weights, open ? row : 0);
        for (u32 k = 0; k < LANE_ARCS && open && at < end; k++) {
            const DIST weight = (DIST)my_weights[at];
            open = path_sum(floor, weight, top) < best;
            if (open) {
                best = min(best, path_sum(distance[my_neighbors[at]], weight, top));
                at++;
                examined++;
            }
        }
        for (u32 rest = __ballot_sync(FULL, open && at < end); rest; rest &= rest - 1) {
            const u32 who = __ffs(rest) - 1;
            const u64 stop = __shfl_sync(FULL, end, who);
            const auto its_neighbors = arcs_of(neighbors, row - lane + who);
            const auto its_weights = arcs_of(weights, row - lane + who);
            DIST least = __shfl_sync(FULL, best, who);
            u32 looked = 32;
            for (u64 a = __shfl_sync(FULL, at, who); a < stop && looked == 32; a += 32) {
                const bool here = a + lane < stop;
                const DIST weight = here ? (DIST)its_weights[a + lane] : (DIST)0;
                // The smallest candidate of this arc and those before it.
                DIST so_far = here ? path_sum(distance[its_neighbors[a + lane]], weight, top) : top;
                for (int step = 1; step < 32; step <<= 1) {
                    const DIST below = __shfl_up_sync(FULL, so_far, step);
                    if (lane >= step) so_far = min(so_far, below);
                }
                const DIST below = __shfl_up_sync(FULL, so_far, 1), had = lane ? min(least, below) : least;
                const u32 stops = __ballot_sync(FULL, !here || path_sum(floor, weight, top) >= had);
                looked = stops ? __ffs(stops) - 1 : 32;
                const DIST last = __shfl_sync(FULL, so_far, looked ? looked - 1 : 0);
                if (looked) least = min(least, last);
                if (lane == who) examined += looked;
            }
            if (lane == who) best = least;
        }
        const bool better = real && best < before;
        const VERTEX place = place_in(counts + EMITTED, better);
        if (!better) return;
        target[place] = v;
        found[place] = best;
        out_arcs += out_offsets[row + 1] - out_offsets[row];
    });
    add_to(counts + ARCS, out_arcs);
    add_to(counts + EXAMINED, examined);
}

// Counts reached rows that have an out-neighbour out of reach: only a sum that overflows does that.
// A warp a row.
extern "C" __global__ void find_overflow(u32 rows, u32 shards, u32 shard, const u64* offsets, ARCS(VERTEX) neighbors,
                                         const DIST* distance, DIST heaviest, DIST top, u64* counts) {
    const u32 lane = threadIdx.x % 32;
    u64 lost = 0;
    over_lanes((u64)rows * 32, [&](u64 thread, bool) {
        const u64 row = thread / 32;
        const DIST at = distance[internal_of((u32)row, shards, shard)];
        if (at == top || path_sum(at, heaviest, top) < top) return;
        const auto mine = arcs_of(neighbors, row);
        for (u64 a = offsets[row] + lane; a < offsets[row + 1]; a += 32) lost += distance[mine[a]] == top;
    });
    add_to(counts + LISTED, lost);
}

// Distances of the own rows.
extern "C" __global__ void take_own(u32 rows, u32 shards, u32 shard, const DIST* distance, DIST* own) {
    over_lanes(rows, [&](u64 row, bool real) {
        if (real) own[row] = distance[internal_of((u32)row, shards, shard)];
    });
}
