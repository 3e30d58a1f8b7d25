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
// Whether rows stand in host memory, and only what searches read most of them on the device too.
#ifndef TIERED
#define TIERED 0
#endif
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
#ifndef LIST_ROWS
#define LIST_ROWS (1u << 18)
#endif
// First neighbours in arrays of their own: one, four, and four more.
#define HEADS 9
// Arcs of a row that one thread looks at beyond the heads; what follows is cut into pieces of
// so many arcs, a warp each.
#ifndef LANE_ARCS
#define LANE_ARCS 24u
#endif
#define PIECE_ARCS 1024u
// Quads of rows that a warp takes at a time.
#define WARP_QUADS 8u
// Full pulls whose rows are kept as bits until their levels are entered.
#define MAPS 4u

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

// Dynamic shared memory: the frontier's bits as far as hubs go; then the buffers of 32 warps, though a
// block may have fewer; then the rough bits of the frontier. In narrow levels the frontiers and the
// bits of visited rows take the place of the first two.
extern __shared__ uint4 shared[];

// A warp's buffer in shared memory: rows of its quads, by quad and row, and words of bits.
struct WarpBuffer {
    union {
        u16 rows[WARP_QUADS * 128];
        u32 words[(MAPS + 1) * WARP_QUADS * 4];
    };
    u32 got[WARP_QUADS * 4];
};
static_assert(WARP_QUADS == 8, "the words of a bitmap for a warp's quads are one a lane");
#ifdef BUFFER_BYTES
static_assert(sizeof(WarpBuffer) == BUFFER_BYTES, "the caller sizes shared memory by it");
#endif

__device__ __forceinline__ WarpBuffer& own_buffer() { return ((WarpBuffer*)(shared + HUB_QUADS))[threadIdx.x / 32]; }

__device__ __forceinline__ u32* rough_words() { return (u32*)(shared + HUB_QUADS + 32 * (u32)sizeof(WarpBuffer) / 16); }

// How many quads share a rough bit, as a power of two.
__device__ __forceinline__ u32 rough_shift(const Graph& g) { return 32 - __clz((int)((g.quads - 1) / ROUGH_BITS)); }

// The frontier in shared memory as far as hubs go, and all of it in global memory. Of a small
// frontier most words are zero: where it is `rough`, bits of 1 << shift quads each, in shared memory,
// tell which need not be read.
struct Front {
    const u32* words;
    u32 hub_words;
    u32 shift;
    bool rough;
};

// What one thread has counted since the level began.
struct Tally {
    u64 found, examined;
};

// A quad of a bitmap has the bits of 128 rows, and each lane of a warp four rows in a row: word j
// holds the j-th row of every lane.
__device__ __forceinline__ u32 word_at(u32 vertex) { return vertex >> 7 << 2 | (vertex & 3); }
__device__ __forceinline__ u32 bit_at(u32 vertex) { return 1u << (vertex >> 2 & 31); }
__device__ __forceinline__ u32 vertex_at(u32 word, u32 bit) { return word >> 2 << 7 | bit << 2 | (word & 3); }

__device__ __forceinline__ bool lane_of(u32 word) { return word >> threadIdx.x % 32 & 1; }

// The word that holds a vertex's bit. All loads are predicated, so that several look-ups overlap.
__device__ __forceinline__ u32 word_of(const Front& front, u32 vertex) {
    u32 word = word_at(vertex), bits = 0;
    bool far = word >= front.hub_words && vertex != NONE;
    if (word < front.hub_words) bits = ((const u32*)shared)[word];
    if (front.rough) {
        const u32 group = vertex >> 7 >> front.shift;
        u32 rough = 0;
        if (far) rough = rough_words()[group >> 5];
        far = rough >> (group & 31) & 1;
    }
    if (far) bits = __ldcg(front.words + word);
    return bits;
}

__device__ __forceinline__ bool holds(const Front& front, u32 vertex) {
    return word_of(front, vertex) & bit_at(vertex);
}

__device__ __forceinline__ void set_found(const Search& s, u32 vertex, u32 level, u32 parent) {
    s.level[vertex] = (LEVEL)level;
    s.parent[vertex] = parent;
}

// Enters what a lane knows of its four rows, where `mask` has their bits.
__device__ __forceinline__ void set_four(const Search& s, u32 quad, u32 mask, const u32* level, uint4 parent) {
    const u32 at = quad * 32 + threadIdx.x % 32;
    if (mask == 15) {
        const u32 low = (level[0] & 255) | (level[1] & 255) << 8;
        if (sizeof(LEVEL) == 1) ((u32*)s.level)[at] = low | (level[2] & 255) << 16 | level[3] << 24;
        else ((uint4*)s.level)[at] = make_uint4(level[0], level[1], level[2], level[3]);
        ((uint4*)s.parent)[at] = parent;
        return;
    }
    if (mask & 1) set_found(s, at * 4, level[0], parent.x);
    if (mask & 2) set_found(s, at * 4 + 1, level[1], parent.y);
    if (mask & 4) set_found(s, at * 4 + 2, level[2], parent.z);
    if (mask & 8) set_found(s, at * 4 + 3, level[3], parent.w);
}

// Levels of some of a lane's four rows; those of bytes lie in one word.
struct Levels {
    u32 mask, bytes;
    u32 level[4];

    __device__ __forceinline__ Levels(u32 mask, u32 value) : mask(0), bytes(0), level{0, 0, 0, 0} { add(mask, value); }

    // Rows that had none before.
    __device__ __forceinline__ void add(u32 rows, u32 value) {
        mask |= rows;
        if (sizeof(LEVEL) == 1) bytes |= (rows * 0x00204081u & 0x01010101u) * (value & 255);
        else
            for (u32 j = 0; j < 4; j++) level[j] = rows >> j & 1 ? value : level[j];
    }

    __device__ __forceinline__ void enter(const Search& s, u32 at) const {
        if (mask == 15) {
            if (sizeof(LEVEL) == 1) ((u32*)s.level)[at] = bytes;
            else ((uint4*)s.level)[at] = make_uint4(level[0], level[1], level[2], level[3]);
        } else if (mask) {
            for (u32 j = 0; j < 4; j++)
                if (mask >> j & 1) s.level[at * 4 + j] = (LEVEL)(sizeof(LEVEL) == 1 ? bytes >> 8 * j & 255 : level[j]);
        }
    }
};

__device__ __forceinline__ void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// A lane's bits of a quad's words, its first row's lowest.
__device__ __forceinline__ u32 four_of(uint4 words) {
    return lane_of(words.x) | lane_of(words.y) << 1 | lane_of(words.z) << 2 | lane_of(words.w) << 3;
}

__device__ __forceinline__ u32 count_of(uint4 words) {
    return __popc(words.x) + __popc(words.y) + __popc(words.z) + __popc(words.w);
}

__device__ __forceinline__ uint4 both(uint4 a, uint4 b) {
    return make_uint4(a.x | b.x, a.y | b.y, a.z | b.z, a.w | b.w);
}

// Looks at four neighbours in their order; the first member of the frontier, or NONE.
__device__ __forceinline__ u32 first_of(const Front& front, uint4 u, Tally& tally) {
    u32 x = word_of(front, u.x), y = word_of(front, u.y), z = word_of(front, u.z), w = word_of(front, u.w);
    u32 member = w & bit_at(u.w) ? u.w : NONE;
    if (z & bit_at(u.z)) member = u.z;
    if (y & bit_at(u.y)) member = u.y;
    if (x & bit_at(u.x)) member = u.x;
#ifdef COUNT
    tally.examined += (u.x != NONE) + (u.y != NONE && u.y <= member) + (u.z != NONE && u.z <= member) +
                      (u.w != NONE && u.w <= member);
#endif
    return member;
}
