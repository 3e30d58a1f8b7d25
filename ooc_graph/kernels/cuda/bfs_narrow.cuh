// BFS top-down while levels are narrow: one block goes from level to level by itself, and the
// others wait at one barrier. A level then takes a few accesses to memory, one after another.
#pragma once
#include "bfs_graph.cuh"

// Whether levels may be narrow on any graph, and not only where the caller says that rows are short.
#ifndef THIN
#define THIN 0
#endif
// Frontiers with at most so many arcs are narrow; they stand in shared memory, an arc a slot.
#ifndef NARROW_ARCS
#define NARROW_ARCS (HUB_WORDS / 8 < 4096 ? HUB_WORDS / 8 : 4096)
#endif
#define NARROW_TURNS ((NARROW_ARCS + 1023) / 1024)
// After so many levels the bits of visited rows come into shared memory too, if there is room.
#define HOLD_AFTER 4u
#define HELD_QUADS (HUB_QUADS + 32 * (u32)sizeof(Room) / 16 - (NARROW_ARCS * 24 + 15) / 16)
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
// The frontier is queue[head:tail), with its entries' starts. What is found is entered behind it,
// and its levels stand where starts do, until `level_queue`.
__device__ __noinline__ void narrow_levels(const Graph g, const Search s, Place here, Place* arrived, Slot* own,
                                           Course* course, u32 course_levels, u64 started) {
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
    u32 turn = 0, side = 0, arcs = (u32)here.arcs, levels = 0;
    uint4* const held_quads = shared + (NARROW_ARCS * 24 + 15) / 16;
    u32* const held_words = (u32*)held_quads;
    bool held = false;
    __syncthreads();
    while (true) {
        const u32 level = here.level + 1;
        const Slots from_slots = {ats + side * NARROW_ARCS, froms + side * NARROW_ARCS};
        const Slots to_slots = {ats + (side ^ 1) * NARROW_ARCS, froms + (side ^ 1) * NARROW_ARCS};
        if (levels++ == HOLD_AFTER && g.quads <= HELD_QUADS) {
            for (u32 q = threadIdx.x; q < g.quads; q += blockDim.x) held_quads[q] = __ldcg((const uint4*)s.visited + q);
            held = true;
            __syncthreads();
        }
        u32 to[NARROW_TURNS], from[NARROW_TURNS], mine[NARROW_TURNS];
        u64 begin[NARROW_TURNS];
        bool open[NARROW_TURNS], won[NARROW_TURNS];
#pragma unroll
        for (u32 j = 0; j < NARROW_TURNS; j++) {
            const u32 a = j * blockDim.x + threadIdx.x;
            from[j] = a < arcs ? from_slots.from[a] : NONE;
            to[j] = from[j] != NONE ? __ldg(g.out_neighbors + from_slots.at[a]) : NONE;
        }
#pragma unroll
        for (u32 j = 0; j < NARROW_TURNS; j++) {
            u32 word = FULL;
            if (to[j] != NONE) word = held ? held_words[word_at(to[j])] : __ldcg(s.visited + word_at(to[j]));
            open[j] = !(word & bit_at(to[j]));
        }
        __syncthreads(); // all have looked before anyone claims: who comes late does so in this level
#pragma unroll
        for (u32 j = 0; j < NARROW_TURNS; j++) {
            won[j] = false;
            mine[j] = 0;
            begin[j] = 0;
            if (open[j]) {
                u32* const word = held ? held_words + word_at(to[j]) : s.visited + word_at(to[j]);
                won[j] = !(atomicOr(word, bit_at(to[j])) & bit_at(to[j]));
            }
            if (won[j]) {
                begin[j] = __ldg(g.out_offsets + to[j]);
                mine[j] = (u32)min(__ldg(g.out_offsets + to[j] + 1) - begin[j], (u64)WIDE_ROW);
                s.parent[to[j]] = from[j];
            }
        }
#pragma unroll
        for (u32 j = 0; j < NARROW_TURNS; j++) {
            const u32 winners = __ballot_sync(FULL, won[j]);
            if (!winners) continue;
            const u32 sum = sum_to_lane(mine[j]);
            u32 first = 0, entry = 0;
            if (lane == 31) {
                first = atomicAdd(sums + turn, sum);
                entry = atomicAdd(counts + turn, __popc(winners));
            }
            first = __shfl_sync(FULL, first, 31) + sum - mine[j];
            entry = here.tail + __shfl_sync(FULL, entry, 31) + __popc(winners & ((1u << lane) - 1));
            if (won[j]) {
                s.queue.rows[entry] = to[j];
                s.queue.starts[entry] = level;
            }
            fill_slots(to_slots, min(first, (u32)NARROW_ARCS), to[j], begin[j], mine[j]);
        }
        __syncthreads();
#pragma unroll
        for (u32 j = 0; j < NARROW_TURNS; j++)
            if (open[j] && !won[j]) atomicMin(s.parent + to[j], from[j]); // the smaller parent counts
        const u32 found = counts[turn], sum = sums[turn];
        if (threadIdx.x == 0) {
            counts[(turn + 2) % 3] = sums[(turn + 2) % 3] = 0;
            if (level < course_levels) {
                Course* c = course + level;
                c->found = found;
                c->pushed = arcs;
                c->direction = PUSH;
#ifdef TRACE
                c->elapsed = nanoseconds() - started;
#endif
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
    if (held)
        for (u32 q = threadIdx.x; q < g.quads; q += blockDim.x) ((uint4*)s.visited)[q] = held_quads[q];
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

// Enters the levels of what narrow levels have found: queue[begin:head), and the last in [head:tail).
__device__ __forceinline__ void level_queue(const Search& s, u32 begin, const Place& place) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 i = begin + thread; i < place.tail; i += threads)
        s.level[__ldcg(s.queue.rows + i)] = (LEVEL)(i < place.head ? __ldcg(s.queue.starts + i) : place.level);
}
