// What BFS searches, what it keeps, and the constants that decide how it runs.
#pragma once
#include "queue.cuh"

// Threads of a block.
#ifndef BLOCK
#define BLOCK 1024
#endif
#ifndef HUB_WORDS
#define HUB_WORDS 32768
#endif
#ifndef LEVEL
#define LEVEL u8
#endif
#define HUB_QUADS ((u32)HUB_WORDS / 4)
// Words of bits that tell which quads of the frontier behind the hubs' may be other than zero.
#ifndef ROUGH_WORDS
#define ROUGH_WORDS 4096
#endif
#define ROUGH_BITS ((u32)ROUGH_WORDS * 32)
// They pay where a frontier has fewer vertices than one in so many of them.
#ifndef ROUGH_BELOW
#define ROUGH_BELOW 6
#endif
#define UNREACHED ((LEVEL)~(LEVEL)0)
#define LAST_LEVEL ((u32)((sizeof(LEVEL) == 1) ? 253u : 0x7FFFFFFEu))

// Whether the rows are those of one rank of several, which share the frontier's bits.
#ifndef PEERS
#define PEERS 0
#endif

#define PUSH 0
#define PULL 1

// A frontier with more arcs than these, and than one in so many rows, floods: its arcs are gone
// through once, and all rows before and after.
#ifndef FLOOD_ARCS
#define FLOOD_ARCS (1u << 18)
#endif
#ifndef FLOOD_ROWS
#define FLOOD_ROWS 32
#endif
// Pull once the frontier holds one in this many of the arcs not visited yet.
#ifndef PULL_ABOVE
#define PULL_ABOVE 60
#endif
// Push again once the frontier holds fewer than one in this many of the vertices not visited yet,
#ifndef PUSH_BELOW
#define PUSH_BELOW 128
#endif
// unless those are so few that a list of them is as quick.
#ifndef OPEN_ROWS
#define OPEN_ROWS (1u << 20)
#endif
// Such a list pays when it is one in this many of all rows.
#ifndef OPEN_BELOW
#define OPEN_BELOW 32
#endif
// Rows found out of at most so many are listed as they are found.
#define LIST_ROWS (1u << 18)
// First neighbours in arrays of their own: one, four, and four more.
#define HEADS 9
// Arcs of a row that one thread looks at beyond the heads; what follows is cut into pieces of
// so many arcs, a warp each.
#define LANE_ARCS 24u
#define PIECE_ARCS 1024u
// Quads of rows that a warp takes at a time.
#define WARP_QUADS 8u
// Full pulls whose rows are kept as bits until their levels are entered.
#ifndef MAPS
#define MAPS 4u
#endif

struct Slot {
    u64 found;    // vertices
    u64 queued;   // entries of the queue << ARC_BITS, and their out-arcs
    u32 pieces; // of long rows that are left for later
    u32 open;      // entries of the list of rows not visited yet
};

// Where a search has arrived.
struct Progress {
    u64 found, arcs, unvisited, unvisited_arcs;
    u32 level, head, tail; // the frontier in the queue
};

struct State {
    Barrier barrier;
    u32 levels;   // levels that have vertices
    u32 overflow; // there are more than LEVEL can tell: the answer is not whole
    Slot slot[4]; // of the levels of all blocks, in turn
    Slot own;     // of block 0, in narrow levels
    Progress progress;  // behind narrow levels
};

// What a level cost, by the number of the level that it found.
struct LevelTrace {
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
#if TIERED
    // Neighbours are in host memory. The rows below these are on the device as well;
    const u32* out_near;
    const u32* in_near;
    u32 out_near_rows, in_near_rows;
    // so is the first neighbour of every in-row, and behind it so many columns of four: where each
    // begins in `heads`, and how many rows it has.
    u32 columns;
    const uint2* column;
#endif
#if PEERS
    u32 rank_bits, rank; // blocks of 1,024 vertices are dealt to 1 << rank_bits; neighbours are internal ids
#endif
};

struct Search {
    u32* parent;  // this and `level` have room for whole quads; open rows' is scratch for pulls
    LEVEL* level;
    u32* visited;
    u32* maps; // MAPS bitmaps of rows found by full pulls: their levels are to be entered
    Queue queue;
    u64* pieces; // row << 32 | number of the piece
#if TIERED
    u32 capacity; // of the queue, from the end of which on pieces stand instead
#endif
};

#if !TIERED // the same words as if there were no tiers, so that the compiler makes the same of them
#define OUT_ARCS(g, row) (g.out_neighbors)
#define IN_ARCS(g, row) (g.in_neighbors)
#define ROWS_OF_FOUR(g) (g.longer1)
#define GOES_ON(g, v, four, last) (last.w != NONE)
#define PIECE_AT(s, at) __ldcg(s.pieces + (at))
#endif
