// What SSSP searches, what it keeps, and the constants that decide how it runs.
#pragma once
#include "queue.cuh"
#include "sssp_sums.cuh"

// The host sets WARP_QUADS: quads (128 rows) that a warp takes at a time, 1, 2 or 4.

// Pull once one in this many of the arcs has been examined by pushing.
#ifndef ENOUGH_PUSHED
#define ENOUGH_PUSHED 4000
#endif
// Arcs of a row that a warp relaxes before the rest is cut into pieces for others.
#ifndef PIECE_ARCS
#define PIECE_ARCS 64u
#endif

struct Slot {
    u64 examined;
    u64 again;   // vertices improved that had been reached before
    u64 arcs;    // out-arcs of the vertices reached, or changed
    u64 queued;  // as `enter` wants it
    u32 count;   // entries of the next queue, or rows changed
    u32 reached; // vertices reached for the first time
    u32 pieces;
    u32 least;   // complement of the smallest distance
    u32 most;    // largest distance
};

struct State {
    Barrier barrier;
    u32 passes, rounds, raises, inner;
    u64 unresolved; // reached rows that no neighbour gives a parent: out- and in-rows differ
    u64 phase[4]; // arcs examined: push, pull, finish, parents
    Slot slot[4];
};

#if TIERED
// The first arcs of each row, on the device.
struct NearArcs {
    const u32* starts; // (rows + 1,)
    const u32* neighbors;
    const u32* weights;
};
#endif

struct Graph {
    u32 rows, quads;
    const u64* out_offsets;
    const u32* out_neighbors;
    const u32* out_weights;
    const u32* lightest; // first out-weight of row v at v << lightest_shift; UNREACHED where none is
    u32 lightest_shift;
    const u64* in_offsets;
    const u32* in_neighbors;
    const u32* in_weights;
    const uint2* head;    // first neighbour and weight of each row; UNREACHED as weight where none is
    const u32* second;  // (longer1,): second weight
    const uint4* pair;    // (longer1,): second and third neighbour and weight
    const uint4* pair2;   // (longer3,): fourth and fifth
    u32 longer1, longer3; // rows from these on have no second, no fourth arc
    u32 hubs;             // rows below are long: a warp each looks at them (a multiple of WARP_QUADS)
    const u32* original_of; // null: parents are given as internal ids
#if TIERED
    NearArcs out_near, in_near;
#endif
};

struct Search {
    u32* parent;    // also the list of vertices in the order they were reached, while pushing
    u32* distance;
    u64* record;    // distance << 32 | arcs relaxed with it; also scratch of the parents
    u32* marks;     // vertices in one queue; rows changed by a pull; rows on plateaus
    u32* resolved;  // vertices in the other queue; rows that have a parent among the inner vertices
    Queue queue;    // its two arrays are also the queues of this round and the next
    u64* pieces; // row << 32 | number of the piece
    u32 piece_capacity;
};

struct Tally {
    u64 examined, again, arcs;
};

// Arcs of a row that were relaxed with the distance it has.
__device__ __forceinline__ u64 relaxed_arcs(const Search& s, u32 vertex, u32 distance) {
    const u64 record = __ldcg(s.record + vertex);
    return (u32)(record >> 32) == distance ? record & NONE : 0;
}

// What a round reads and what it fills: the next queue with its marks, and the list of vertices in
// the order they were reached (`parent`), if `note`.
struct Wave {
    const u32* queue;
    u32* queue_marks;
    u32* next;
    u32* next_marks;
    u32 count, reached, bound;
    bool note;
};
