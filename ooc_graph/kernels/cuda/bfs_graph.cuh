// What BFS searches, what it keeps, and the constants that decide its course.
#pragma once
#include "queue.cuh"

#ifndef HUB_WORDS
#define HUB_WORDS 32768
#endif
#ifndef LEVEL
#define LEVEL u8
#endif
#define HUB_QUADS ((u32)HUB_WORDS / 4)
#define UNREACHED ((LEVEL)~(LEVEL)0)
#define LAST_LEVEL ((u32)((sizeof(LEVEL) == 1) ? 253u : 0x7FFFFFFEu))

#define PUSH 0
#define PULL 1

// A frontier with fewer arcs is pushed with a queue; with more, found vertices are bits only.
#ifndef QUEUE_ARCS
#define QUEUE_ARCS (1u << 18)
#endif
// Pull once the frontier holds one in this many of the arcs not visited yet.
#ifndef PULL_ABOVE
#define PULL_ABOVE 60
#endif
// Push again once the frontier holds fewer than one in this many of the vertices not visited yet,
#ifndef PUSH_BELOW
#define PUSH_BELOW 32
#endif
// unless those are so few that a list of them is as quick.
#ifndef OPEN_ROWS
#define OPEN_ROWS (1u << 20)
#endif
// Such a list pays when it is one in this many of all rows.
#ifndef OPEN_BELOW
#define OPEN_BELOW 32
#endif
// First neighbours in arrays of their own: one, four, and four more.
#define HEADS 9
// Arcs of a row that one thread looks at beyond the heads; what follows is cut into stretches of
// so many arcs, a warp each.
#define LANE_ARCS 24u
#define STRETCH 1024u
// Quads of rows that a warp takes at a time.
#define UNIT 8u
// A unit with fewer open rows is packed first, a row a lane.
#define SPARSE 512u

struct Slot {
    u64 found;    // vertices
    u64 queued;   // entries of the queue << ARC_BITS, and their out-arcs
    u32 stretches; // of long rows that are left for later
    u32 open;      // entries of the list of rows not visited yet
};

struct State {
    Barrier barrier;
    u32 levels;   // levels that have vertices
    u32 overflow; // there are more than LEVEL can tell: the answer is not whole
    Slot slot[4];
};

// What a level cost, by the number of the level that it found.
struct Course {
    u64 found, pushed, examined, elapsed;
    u64 direction;
};

struct Graph {
    u32 rows, quads; // quads: 128 rows each
    const u64* out_offsets;
    const u32* out_neighbors;
    const u64* in_offsets;
    const u32* in_neighbors;
    const u32* head;          // first neighbours, NONE where there is none
    const uint4* heads;       // second to fifth (longer1,), then sixth to ninth (longer5,)
    const u32* head_original; // original ids of `head`
    u32 longer1, longer5;     // rows from these on have no second, no sixth neighbour
    const u32* original_of;   // null: parents are given as internal ids, and `head_original` is `head`
};

struct Search {
    u32* parent;
    LEVEL* level;
    u32* visited;
    Queue queue;
    u64* stretches; // row << 32 | number of the stretch
};

// The frontier in shared memory as far as hubs go, and all of it in global memory.
struct Front {
    const u32* hubs;
    const u32* words;
    u32 hub_words;
};

// What one thread has counted since the level began.
struct Tally {
    u64 found, examined;
};

// What an internal id is called in the answer.
__device__ __forceinline__ u32 name_of(const Graph& g, u32 vertex) {
    return g.original_of ? __ldg(g.original_of + vertex) : vertex;
}

__device__ __forceinline__ u64 out_degree(const Graph& g, u32 vertex) {
    return __ldg(g.out_offsets + vertex + 1) - __ldg(g.out_offsets + vertex);
}

// The word that holds a vertex's bit. Both loads are predicated, so that several look-ups overlap.
__device__ __forceinline__ u32 word_of(const Front& front, u32 vertex) {
    u32 word = vertex >> 5, bits = 0;
    if (word < front.hub_words) bits = front.hubs[word];
    if (word >= front.hub_words && vertex != NONE) bits = __ldcg(front.words + word);
    return bits;
}

__device__ __forceinline__ bool holds(const Front& front, u32 vertex) {
    return word_of(front, vertex) & bit_of(vertex);
}
