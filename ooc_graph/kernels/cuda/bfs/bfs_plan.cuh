// What a BFS does next, and how it continues behind narrow levels.
#pragma once
#include "bfs_flood.cuh"
#include "bfs_narrow.cuh"

// Pieces stand at the queue's end, which pulls that list what they find would come to meet.
static_assert(!(TIERED && THIN), "tiers have no narrow levels");

// What a search does next, the same in all threads.
struct Plan {
    u32 level, direction;
    u32 turn;       // levels that were gone through by all blocks
    u32 cur;        // which of the three bitmaps is the frontier; the next one takes what is found
    u32 head, tail; // the frontier in the queue
    u32 converted;  // entries of the queue whose parents are original ids
    u32 open;       // rows in the list of those not visited yet, when that is used
    u32 maps;       // bitmaps of rows whose levels are not entered yet
    u32 dirty;      // bitmaps that are not all zeros, a bit each
    u64 found, arcs, unvisited, unvisited_arcs;
    bool listed; // the frontier stands in the queue
    bool bits;   // the frontier stands in its bitmap
    bool few;    // the list of rows not visited yet is made
    bool broad;  // the frontier is not narrow, though it has few arcs
    bool rough;  // the rough bits are the frontier's
    bool roughed; // they have been written already
    bool has_names;  // rows not visited yet have their first neighbour's name as parent
};

// All blocks continue from where block 0 has arrived in narrow levels.
__device__ __forceinline__ void arrive(const Graph& g, const Search& s, Plan& p, State* state, u32& goal) {
    const Progress* const arrived = &state->progress;
    const u32 from = p.level - 1, tail = p.tail;
    Progress progress;
    progress.found = __ldcg(&arrived->found);
    progress.arcs = __ldcg(&arrived->arcs);
    progress.unvisited = __ldcg(&arrived->unvisited);
    progress.unvisited_arcs = __ldcg(&arrived->unvisited_arcs);
    progress.level = __ldcg(&arrived->level);
    progress.head = __ldcg(&arrived->head);
    progress.tail = __ldcg(&arrived->tail);
    p.level = progress.level;
    p.broad = progress.found; // what was left is not narrow
    if (progress.level == from) return;
    convert_queue(g, s, p.converted, tail);
    settle_narrow(g, s, from, progress, tail, progress.found, &state->own);
    // What follows reads it, or writes whole lines of the answer; once all rows are found nothing does.
    if (progress.found || progress.unvisited) grid_barrier(&state->barrier, goal);
    p.found = progress.found;
    p.arcs = __ldcg(&state->own.queued) & ARC_MASK;
    p.unvisited = progress.unvisited;
    p.unvisited_arcs = progress.unvisited_arcs - min(p.arcs, progress.unvisited_arcs);
    p.head = progress.head;
    p.converted = p.tail = progress.tail;
    p.listed = true;
    p.bits = false;
}

// Whether the frontier, which stands in the queue, is to flood: so must all that was visited.
__device__ __forceinline__ bool floods(const Plan& p, u32 rows) {
    return p.arcs > FLOOD_ARCS && p.arcs > rows / FLOOD_ROWS && rows - p.unvisited == p.tail && p.tail <= rows / 2;
}

// Whether the frontier has no more arcs, and finds no more rows, than a push can count. A flood enters
// no rows; the root, which is pushed in any case, floods where it has very many arcs.
__device__ __forceinline__ bool can_push(const Plan& p, u32 rows) {
    return p.arcs <= MOST_SHARED_ARCS && (min(p.arcs, p.unvisited) <= MOST_ENTRIES || floods(p, rows));
}
