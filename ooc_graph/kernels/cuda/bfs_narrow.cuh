// BFS top-down while levels are narrow: one block goes from level to level by itself, and the
// others wait at one barrier. A level then takes a few accesses to memory, one after another.
#pragma once
#include "bfs_graph.cuh"

// Frontiers with at most so many arcs are narrow; they stand in shared memory, an arc a slot.
#ifndef NARROW_ARCS
#define NARROW_ARCS (HUB_WORDS / 8 < 4096 ? HUB_WORDS / 8 : 4096)
#endif
#define NARROW_TURNS ((NARROW_ARCS + 1023) / 1024)
// Sums of arcs stay below 2**32, and one row of so many is not narrow.
#define WIDE_ROW (1u << 18)

// A frontier's arcs: each slot knows the arc and the row that it leaves.
struct Slots {
    u64* at;
    u32* from; // NONE: no arc
};

// Gives the arcs of `from` to the slots from `first` on, as far as there are any; whole warps call
// it, lanes without a row with no arcs.
__device__ __forceinline__ void fill_slots(const Slots& slots, u32 first, u32 from, u64 at, u32 arcs) {
    const u32 lane = threadIdx.x % 32, stop = min(first + arcs, (u32)NARROW_ARCS);
    u32 rows = __ballot_sync(FULL, arcs > 8);
    if (arcs <= 8)
        for (u32 k = first; k < stop; k++) {
            slots.at[k] = at + (k - first);
            slots.from[k] = from;
        }
    for (; rows; rows &= rows - 1) {
        const u32 owner = __ffs(rows) - 1;
        const u32 begin = __shfl_sync(FULL, first, owner), end = __shfl_sync(FULL, stop, owner);
        const u32 row = __shfl_sync(FULL, from, owner);
        const u64 arc = __shfl_sync(FULL, at, owner);
        for (u32 k = begin + lane; k < end; k += 32) {
            slots.at[k] = arc + (k - begin);
            slots.from[k] = row;
        }
    }
}

// Goes on for as many levels as are narrow, and writes down the course and where it has arrived.
// The frontier is queue[head:tail), with its entries' starts. Shared memory has
// room for two times NARROW_ARCS slots.
__device__ __noinline__ void narrow_levels(const Graph g, const Search s, Place here, Place* arrived, Slot* own,
                                           Course* course, u32 course_levels) {
    __shared__ u32 counts[3], sums[3]; // of three levels, in turn: rows found, and their arcs
    u64* const ats = (u64*)shared;
    u32* const froms = (u32*)(ats + 2 * NARROW_ARCS);
    const u32 lane = threadIdx.x % 32;
    if (threadIdx.x < 3) counts[threadIdx.x] = sums[threadIdx.x] = 0;
    for (u32 i = here.head + threadIdx.x; i - lane < here.tail; i += blockDim.x) {
        u32 row = NONE, first = 0, arcs = 0;
        u64 at = 0;
        if (i < here.tail) {
            row = __ldcg(s.queue.rows + i);
            first = __ldcg(s.queue.starts + i);
            at = __ldg(g.out_offsets + row);
            arcs = (u32)(__ldg(g.out_offsets + row + 1) - at);
            if (!arcs) froms[first] = NONE; // a place of its own all the same
        }
        fill_slots({ats, froms}, first, row, at, arcs);
    }
    u32 turn = 0, side = 0, arcs = (u32)here.arcs;
    // Arcs that did not claim their row: the row's level, known by the next turn, tells whether it
    // was claimed in the same level; then the smaller parent counts.
    u32 late_to[NARROW_TURNS], late_from[NARROW_TURNS];
    LEVEL late_level[NARROW_TURNS];
#pragma unroll
    for (u32 j = 0; j < NARROW_TURNS; j++) late_to[j] = NONE;
    __syncthreads();
    while (true) {
        const u32 level = here.level + 1;
        const Slots from_slots = {ats + side * NARROW_ARCS, froms + side * NARROW_ARCS};
        const Slots to_slots = {ats + (side ^ 1) * NARROW_ARCS, froms + (side ^ 1) * NARROW_ARCS};
        u32 to[NARROW_TURNS], from[NARROW_TURNS];
#pragma unroll
        for (u32 j = 0; j < NARROW_TURNS; j++) {
            const u32 a = j * blockDim.x + threadIdx.x;
            from[j] = a < arcs ? from_slots.from[a] : NONE;
            to[j] = from[j] != NONE ? __ldg(g.out_neighbors + from_slots.at[a]) : NONE;
        }
        u32 old[NARROW_TURNS], mine[NARROW_TURNS];
        u64 begin[NARROW_TURNS];
#pragma unroll
        for (u32 j = 0; j < NARROW_TURNS; j++) {
            old[j] = FULL;
            begin[j] = mine[j] = 0;
            if (to[j] != NONE) {
                old[j] = atomicOr(s.visited + word_at(to[j]), bit_at(to[j]));
                begin[j] = __ldg(g.out_offsets + to[j]);
                mine[j] = (u32)min(__ldg(g.out_offsets + to[j] + 1) - begin[j], (u64)WIDE_ROW);
            }
        }
#pragma unroll
        for (u32 j = 0; j < NARROW_TURNS; j++) {
            if (late_to[j] != NONE && late_level[j] == (LEVEL)here.level) atomicMin(s.parent + late_to[j], late_from[j]);
            const bool won = to[j] != NONE && !(old[j] & bit_at(to[j]));
            late_to[j] = won ? NONE : to[j];
            late_from[j] = from[j];
            const u32 winners = __ballot_sync(FULL, won);
            if (!winners) continue;
            if (!won) mine[j] = 0;
            const u32 sum = sum_to_lane(mine[j]);
            u32 first = 0, entry = 0;
            if (lane == 31) {
                first = atomicAdd(sums + turn, sum);
                entry = atomicAdd(counts + turn, __popc(winners));
            }
            first = __shfl_sync(FULL, first, 31) + sum - mine[j];
            entry = __shfl_sync(FULL, entry, 31) + __popc(winners & ((1u << lane) - 1));
            if (won) {
                s.level[to[j]] = (LEVEL)level;
                s.parent[to[j]] = from[j];
                s.queue.rows[here.tail + entry] = to[j];
            }
            fill_slots(to_slots, min(first, (u32)NARROW_ARCS), to[j], begin[j], mine[j]);
        }
        __syncthreads();
        const u32 found = counts[turn], sum = sums[turn];
#pragma unroll
        for (u32 j = 0; j < NARROW_TURNS; j++)
            late_level[j] = late_to[j] != NONE ? __ldcg(s.level + late_to[j]) : (LEVEL)0;
        if (threadIdx.x == 0) {
            counts[(turn + 2) % 3] = sums[(turn + 2) % 3] = 0;
            if (level < course_levels) {
                Course* c = course + level;
                c->found = found;
                c->pushed = arcs;
                c->direction = PUSH;
            }
        }
        here.level = level;
        here.head = here.tail;
        here.tail += found;
        here.found = found;
        here.arcs = arcs = sum;
        here.unvisited -= found;
        if (!found || sum > NARROW_ARCS || level == LAST_LEVEL) break;
        here.unvisited_arcs -= min((u64)sum, here.unvisited_arcs);
        turn = (turn + 1) % 3;
        side ^= 1;
    }
#pragma unroll
    for (u32 j = 0; j < NARROW_TURNS; j++)
        if (late_to[j] != NONE && late_level[j] == (LEVEL)here.level) atomicMin(s.parent + late_to[j], late_from[j]);
    if (threadIdx.x == 0) *own = Slot{};
    u32 rows[NARROW_TURNS]; // at most as many as the last level's arcs
#pragma unroll
    for (u32 j = 0; j < NARROW_TURNS; j++) {
        const u32 i = j * blockDim.x + threadIdx.x;
        rows[j] = i < here.found ? __ldcg(s.queue.rows + here.head + i) : NONE;
    }
    __syncthreads();
    if (here.arcs > NARROW_ARCS) { // wide levels want to know where each row's arcs begin
#pragma unroll
        for (u32 j = 0; j < NARROW_TURNS; j++)
            enter(s.queue, &own->queued, here.head, rows[j] != NONE, [&](u32) { return rows[j]; },
                  [&](u32) { return out_degree(g, rows[j]); });
        __syncthreads();
        here.arcs = __ldcg(&own->queued) & ARC_MASK;
        here.unvisited_arcs -= min(here.arcs, here.unvisited_arcs);
    }
    if (threadIdx.x == 0) *arrived = here;
}
