// BFS steps on the rows of one shard of many; what is everyone's comes as bitmaps of all vertices.
#include "rank.cuh"
#include "table.cuh"

// Bits of rows that no search claims by an arc: those without in-arcs, and the last words' padding.
extern "C" __global__ void never_claimed(u32 rows, u32 words, const u64* into_offsets, u32* never) {
    over_lanes((u64)words * 32, [&](u64 row, bool) {
        const bool closed = row >= rows || into_offsets[row] == into_offsets[row + 1];
        const u32 bits = __ballot_sync(FULL, closed);
        if (threadIdx.x % 32 == 0) never[row / 32] = bits;
    });
}

// Adds a frontier to what was visited before.
extern "C" __global__ void add_visited(u64 words, const u32* frontier, u32* visited) {
    over_lanes(words, [&](u64 i, bool real) {
        if (real) visited[i] |= frontier[i];
    });
}

// The root is a list of one row.
extern "C" __global__ void claim_root(u32 row, VERTEX root, VERTEX* parent, u32* queue, u64* counts) {
    if (blockIdx.x || threadIdx.x) return;
    parent[row] = root;
    queue[0] = row;
    counts[LISTED] = 1;
}

// Lists rows that are new, each once; the smallest parent counts.
extern "C" __global__ void claim_rows(u64 count, const VERTEX* target, const VERTEX* from, u32 shards,
                                      const u32* visited, VERTEX* parent, u32* queue, u64* counts) {
    over_lanes(count, [&](u64 i, bool real) {
        const u32 row = real ? local_of(target[i], shards) : 0;
        const bool fresh = real && !has(visited, row) && atomicMin(parent + row, from[i]) == NO_VERTEX;
        const VERTEX place = place_in(counts + LISTED, fresh);
        if (fresh) queue[place] = row;
    });
}

// Makes the listed rows the frontier `found` of this level, and counts their out-arcs.
extern "C" __global__ void settle_rows(const u32* queue, const u64* out_offsets, int depth, u32* visited, u32* found,
                                       int* level, u64* counts) {
    u64 arcs = 0;
    over_lanes(counts[LISTED], [&](u64 i, bool real) {
        if (!real) return;
        const u32 row = queue[i];
        atomicOr(visited + (row >> 5), bit_in_word(row));
        atomicOr(found + (row >> 5), bit_in_word(row));
        level[row] = depth;
        arcs += out_offsets[row + 1] - out_offsets[row];
    });
    add_to(counts + ARCS, arcs);
}

// Lists the frontier's rows, in any order, and how many out-arcs each has.
extern "C" __global__ void list_found(u32 words, const u32* found, const u64* out_offsets, u32* queue, u64* arcs,
                                      u64* counts) {
    over_lanes((u64)words * 32, [&](u64 row, bool) {
        const bool there = has(found, (u32)row);
        const VERTEX place = place_in(counts + LISTED, there);
        if (!there) return;
        queue[place] = (u32)row;
        arcs[place] = out_offsets[row + 1] - out_offsets[row];
    });
}

// Puts neighbours of the frontier that were not visited into a table, each with its smallest parent, `best`:
// along the arcs [begin, end) of the frontier's rows.
extern "C" __global__ void push_rows(u64 begin, u64 end, u32 count, const u64* starts, const u32* queue,
                                     const u64* out_offsets, ARCS(VERTEX) neighbors, u32 shards, u32 shard,
                                     const u32* visited, TABLE, VERTEX* best, u64* counts) {
    over_part(count, starts, begin, end, [&](u32 entry, u64 k) {
        u64 slot = 0;
        bool is_new = false;
        if (entry != NONE) {
            const u32 row = queue[entry];
            const VERTEX v = arcs_of(neighbors, row)[out_offsets[row] + k];
            if (!has(visited, v)) {
                slot = slot_of(v, last, keys, is_new);
                atomicMin(best + slot, internal_of(row, shards, shard));
            }
        }
        note_slot(slot, is_new, taken, counts);
    });
}

// Rows not visited take their first neighbour in the frontier as parent: rows ascend, so it is the
// smallest. A warp has the rows of one word; rows that go on are looked at by all of its lanes.
extern "C" __global__ void pull_rows(u32 rows, u32 words, const u64* offsets, ARCS(VERTEX) neighbors,
                                     const u64* out_offsets, const u32* frontier, int depth, u32* visited, u32* found,
                                     VERTEX* parent, int* level, u64* counts) {
    const u32 lane = threadIdx.x % 32;
    u64 count = 0, arcs = 0, examined = 0;
    over_lanes((u64)words * 32, [&](u64 row, bool) {
        const u32 before = visited[row / 32];
        const bool open = row < rows && !(before >> lane & 1);
        u64 at = open ? offsets[row] : 0;
        const u64 end = open ? offsets[row + 1] : 0;
        const auto mine = arcs_of(neighbors, open ? row : 0);
        VERTEX by = NO_VERTEX;
        for (u32 k = 0; k < LANE_ARCS && at < end && by == NO_VERTEX; k++) {
            const VERTEX u = mine[at++];
            examined++;
            if (has(frontier, u)) by = u;
        }
        for (u32 rest = __ballot_sync(FULL, by == NO_VERTEX && at < end); rest; rest &= rest - 1) {
            const u32 who = __ffs(rest) - 1;
            const u64 stop = __shfl_sync(FULL, end, who);
            const auto theirs = arcs_of(neighbors, row - lane + who);
            VERTEX hit = NO_VERTEX;
            const u64 looked = look_for(hit, frontier, theirs, __shfl_sync(FULL, at, who), stop);
            if (lane == who) {
                examined += looked;
                by = hit;
            }
        }
        const bool taken = by != NO_VERTEX;
        const u32 bits = __ballot_sync(FULL, taken);
        if (taken) {
            parent[row] = by;
            level[row] = depth;
            count++;
            arcs += out_offsets[row + 1] - out_offsets[row];
        }
        __syncwarp();
        if (lane == 0) {
            found[row / 32] = bits;
            visited[row / 32] = before | bits;
        }
    });
    add_to(counts + LISTED, count);
    add_to(counts + ARCS, arcs);
    add_to(counts + EXAMINED, examined);
}
