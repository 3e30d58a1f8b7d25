// SSSP steps of one rank of many whose rows are in a store, but for their heads. Pushes along heads are those
// of `sssp_rank.cu`; here are all others, and the steps along arcs that were fetched: a warp a request, and a
// flag that says that its row wants more.
#include "sssp_owned_fetched.cuh"

// The first arcs of each row, and a bitmap of the rows that have more.
#define HEADS const u64 *offsets, const VERTEX *neighbors, const WEIGHT *weights, const u32 *longer
#define HEAD_OF(row) head_of(offsets, neighbors, weights, row)

__device__ __forceinline__ Arcs head_of(const u64* offsets, const VERTEX* neighbors, const WEIGHT* weights, u32 row) {
    const u64 begin = offsets[row];
    return {neighbors + begin, weights + begin, (u32)(offsets[row + 1] - begin)};
}

// Goes through all rows, a lane each. `visit(row, real)` tells whether a row goes on beyond its head; the
// bitmap `more` gets those that have more arcs.
template <typename Visit>
__device__ __forceinline__ void note_more(u32 rows, u32 words, const u32* longer, u32* more, Visit visit) {
    note_rows(words, more, [&](u64 row) {
        const bool real = row < rows, goes = visit((u32)row, real);
        return real && goes && has(longer, (u32)row);
    });
}

// Copies arcs to the heads of their rows, as far as these go.
extern "C" __global__ void hold_fetched(FETCHED, const u64* offsets, VERTEX* head_neighbors, WEIGHT* head_weights) {
    over_requests(FETCHED_ARCS, [&](u32 index, u32 row, Arcs arcs) {
        const u32 cursor = request_word(requests, count, CURSOR, index);
        copy_to_head(arcs.neighbors, arcs.count, cursor, offsets, row, head_neighbors);
        copy_to_head(arcs.weights, arcs.count, cursor, offsets, row, head_weights);
        set_flag(flags, index, true);
    });
}

// Own rows that are nearer now begin with their heads again: none of them waits or goes on in its tail.
extern "C" __global__ void leave_tails(u64 count, const VERTEX* improved, u32 shards, u32 shard, u32* waiting,
                                       u32* wanting) {
    over_lanes(count, [&](u64 i, bool real) {
        if (!real || !is_mine(improved[i], shards, shard)) return;
        const u32 row = local_of(improved[i], shards);
        atomicAnd(waiting + (row >> 5), ~bit_in_word(row));
        atomicAnd(wanting + (row >> 5), ~bit_in_word(row));
    });
}

// Rows whose next candidate is not above the bound wait no more, and are those that go on.
extern "C" __global__ void enter_tails(u32 words, const DIST* later, DIST bound, u32* waiting, u32* wanting) {
    over_lanes((u64)words * 32, [&](u64 row, bool) {
        const u32 before = waiting[row / 32];
        const u32 goes = __ballot_sync(FULL, has(waiting, (u32)row) && later[row] <= bound);
        if (threadIdx.x % 32) return;
        wanting[row / 32] = goes;
        waiting[row / 32] = before & ~goes;
    });
}

// Queued rows that have taken all of their heads go on, too.
extern "C" __global__ void note_exhausted(u32 count, const u32* queue, const u64* offsets, const u32* longer,
                                          const VERTEX* taken, u32* cursor, u32* wanting) {
    over_lanes(count, [&](u64 i, bool real) {
        if (!real) return;
        const u32 row = queue[i], head = (u32)(offsets[row + 1] - offsets[row]);
        if (taken[row] != head || !has(longer, row)) return;
        cursor[row] = head;
        put(wanting, row);
    });
}

// Smallest candidate of the rows that wait in their tails.
extern "C" __global__ void least_later(u32 words, const u32* waiting, const DIST* later, DIST top, u64* counts) {
    DIST low = top;
    over_lanes((u64)words * 32, [&](u64 row, bool) {
        if (has(waiting, (u32)row)) low = min(low, later[row]);
    });
    keep_least(counts + LEAST, low);
}

extern "C" __global__ void push_fetched(FETCHED, u32 shards, u32 shard, const DIST* distance, DIST bound, DIST top,
                                        DIST* best, VERTEX* target, u32* cursor, DIST* later, u32* waiting,
                                        u64* counts) {
    u64 examined = 0;
    Push push = {distance, bound, top, best, target, counts};
    over_requests(FETCHED_ARCS, [&](u32 index, u32 row, Arcs arcs) {
        push.at = distance[internal_of(row, shards, shard)];
        push.later = top;
        u64 taken = 0;
        const bool goes = along(arcs, 0, push, taken);
        const DIST next = warp_least(push.later);
        taken = warp_sum(taken);
        set_flag(flags, index, goes);
        if (threadIdx.x % 32) return;
        cursor[row] += (u32)taken;
        examined += taken;
        if (goes) return;
        later[row] = next;
        put(waiting, row);
    });
    add_to(counts + EXAMINED, examined);
    add_to(counts + AGAIN, push.again);
}

// Rows beyond `final` look along their heads; best[row] is the shortest way so far.
extern "C" __global__ void pull_heads(u32 rows, u32 words, u32 shards, u32 shard, HEADS, const DIST* distance,
                                      DIST final, DIST floor, DIST top, DIST* best, u32* more, u64* counts) {
    u64 examined = 0;
    note_more(rows, words, longer, more, [&](u32 row, bool real) {
        const DIST before = real ? distance[internal_of(row, shards, shard)] : top;
        const bool open = real && before > final;
        Pull pull = {distance, floor, top, before};
        const bool goes = along_each(open ? HEAD_OF(row) : Arcs{nullptr, nullptr, 0}, open, pull, examined);
        if (real) best[row] = pull.best;
        return goes;
    });
    add_to(counts + EXAMINED, examined);
}

extern "C" __global__ void pull_fetched(FETCHED, const DIST* distance, DIST floor, DIST top, DIST* best, u64* counts) {
    u64 examined = 0;
    over_requests(FETCHED_ARCS, [&](u32 index, u32 row, Arcs arcs) {
        Pull pull = {distance, floor, top, __shfl_sync(FULL, best[row], 0)};
        set_flag(flags, index, along(arcs, 0, pull, examined));
        if (threadIdx.x % 32 == 0) best[row] = pull.best;
    });
    add_to(counts + EXAMINED, examined);
}

// Lists the rows that are nearer than everyone knows, and counts their out-arcs.
extern "C" __global__ void list_nearer(u32 rows, u32 shards, u32 shard, const u64* out_offsets, const DIST* best,
                                       const DIST* distance, VERTEX* target, DIST* found, u64* counts) {
    u64 out_arcs = 0;
    over_lanes(rows, [&](u64 row, bool real) {
        const VERTEX v = real ? internal_of((u32)row, shards, shard) : 0;
        const bool better = real && best[row] < distance[v];
        const VERTEX place = place_in(counts + EMITTED, better);
        if (!better) return;
        target[place] = v;
        found[place] = best[row];
        out_arcs += out_offsets[row + 1] - out_offsets[row];
    });
    add_to(counts + ARCS, out_arcs);
}

// Parents along heads; nearest[row] is how near to the root that of a row is.
extern "C" __global__ void parent_heads(u32 rows, u32 words, u32 shards, u32 shard, HEADS, const DIST* distance,
                                        VERTEX root, DIST top, DIST* nearest, VERTEX* parent, u32* more, u64* counts) {
    u64 examined = 0;
    note_more(rows, words, longer, more, [&](u32 row, bool real) {
        const VERTEX v = real ? internal_of(row, shards, shard) : root;
        const DIST at = real ? distance[v] : top;
        const bool open = real && v != root && at < top;
        Parent found = {distance, at, top, at, NO_VERTEX};
        const bool goes = along_each(open ? HEAD_OF(row) : Arcs{nullptr, nullptr, 0}, open, found, examined);
        if (real) {
            nearest[row] = found.nearest;
            parent[row] = v == root ? v : found.by;
        }
        return goes;
    });
    add_to(counts + EXAMINED, examined);
}

extern "C" __global__ void parent_fetched(FETCHED, u32 shards, u32 shard, const DIST* distance, DIST top,
                                          DIST* nearest, VERTEX* parent, u64* counts) {
    u64 examined = 0;
    over_requests(FETCHED_ARCS, [&](u32 index, u32 row, Arcs arcs) {
        Parent found = {distance, distance[internal_of(row, shards, shard)], top, __shfl_sync(FULL, nearest[row], 0),
                        __shfl_sync(FULL, parent[row], 0)};
        set_flag(flags, index, along(arcs, 0, found, examined));
        if (threadIdx.x % 32) return;
        nearest[row] = found.nearest;
        parent[row] = found.by;
    });
    add_to(counts + EXAMINED, examined);
}

// Rows on plateaus look along their heads; `more` gets those that go on.
extern "C" __global__ void plateau_heads(u64 count, const u32* left, u32 shards, u32 shard, HEADS,
                                         const DIST* distance, DIST top, const u32* waiting, VERTEX* parent,
                                         u32* more) {
    u64 examined = 0;
    over_list(count, left, [&](u32 row) {
        Plateau plateau = {distance, waiting, distance[internal_of(row, shards, shard)], top, NO_VERTEX};
        const bool goes = along(HEAD_OF(row), 0, plateau, examined);
        if (threadIdx.x % 32) return;
        parent[row] = plateau.by;
        if (goes && has(longer, row)) put(more, row);
    });
}

extern "C" __global__ void plateau_fetched(FETCHED, u32 shards, u32 shard, const DIST* distance, DIST top,
                                           const u32* waiting, VERTEX* parent) {
    u64 examined = 0;
    over_requests(FETCHED_ARCS, [&](u32 index, u32 row, Arcs arcs) {
        Plateau plateau = {distance, waiting, distance[internal_of(row, shards, shard)], top,
                           __shfl_sync(FULL, parent[row], 0)};
        set_flag(flags, index, along(arcs, 0, plateau, examined));
        if (threadIdx.x % 32 == 0) parent[row] = plateau.by;
    });
}

// Tells rows on plateaus that have a parent now, which are named, from those that have none.
extern "C" __global__ void split_left(u64 count, const u32* left, u32 shards, u32 shard, const VERTEX* parent,
                                      u32* kept, VERTEX* solved, u64* counts) {
    over_lanes(count, [&](u64 i, bool real) {
        const u32 row = real ? left[i] : 0;
        const bool has_one = real && parent[row] != NO_VERTEX, stays = real && !has_one;
        const VERTEX place = place_in(counts + EMITTED, has_one), behind = place_in(counts + KEPT, stays);
        if (has_one) solved[place] = internal_of(row, shards, shard);
        if (stays) kept[behind] = row;
    });
}

// Notes reached rows with a tail from which a path may be longer than a distance can tell.
extern "C" __global__ void note_far(u32 rows, u32 words, u32 shards, u32 shard, const u32* longer,
                                    const DIST* distance, DIST heaviest, DIST top, u32* more) {
    note_more(rows, words, longer, more, [&](u32 row, bool real) {
        const DIST at = real ? distance[internal_of(row, shards, shard)] : top;
        return at != top && path_sum(at, heaviest, top) == top;
    });
}

// Notes rows with a tail that are beyond a bound, or not reached.
extern "C" __global__ void note_beyond(u32 rows, u32 words, u32 shards, u32 shard, const u32* longer,
                                       const DIST* distance, DIST bound, u32* more) {
    note_more(rows, words, longer, more, [&](u32 row, bool real) {
        return real && distance[internal_of(row, shards, shard)] > bound;
    });
}

// Counts neighbours out of reach.
extern "C" __global__ void lose_fetched(FETCHED, const DIST* distance, DIST top, u64* counts) {
    u64 lost = 0;
    over_requests(FETCHED_ARCS, [&](u32 index, u32, Arcs arcs) {
        for (u32 at = threadIdx.x % 32; at < arcs.count; at += 32) lost += distance[arcs.neighbors[at]] == top;
        set_flag(flags, index, true);
    });
    add_to(counts + LISTED, lost);
}
