// What a batch of BFS holds: every row has a bit for each of SLOTS sources, in words of 64.
//
// Of each row `seen` says who has reached it, `front` who did so in the last level, and `next` who
// does in this one; the last two change places from level to level. A front is *listed* where a
// queue has its rows: one that was pushed is, one that was pulled is not.
#pragma once
#include "grid.cuh"

// The host sets what `many/bfs_plan.py` has: BLOCK, BLOCKS_A_PROCESSOR, PIECE_ARCS, PULL_ABOVE, WANTED_SLOTS.

#define WORDS 4 // one a lane: four lanes, a quad, have a row
#define SLOTS (64 * WORDS)
#define HALVES (SLOTS / 32)
static_assert(SLOTS == WANTED_SLOTS, "the host plans for so many sources of a batch");
#define QUADS 8 // of a warp

struct Side {
    const u64* offsets;
    const u32* neighbors;
};

// Rows with in-arcs: those of many arcs, then those of some, then those of few.
struct Order {
    const u32* row;
    u32 longer, middle, shorter;
};

// What is counted of a level: arcs out of its front, arcs into rows that are full since, rows of
// the front, sources found there, and items of the queue.
struct Level {
    u64 arcs, filled, visits, found, queued;
};

// What a batch tells when it is over.
struct BatchReport {
    u64 visits, found;
    u32 depth, pad;
};

struct Batch {
    u64 *seen, *front, *next;
    u32* touched; // bitmap of the rows of `next`, where they are pushed to
    u64 *queue, *next_queue;
    Level *level, *next_level;
    u32 rows, sources;
};

struct Words {
    u64 at[WORDS];
};

__device__ __forceinline__ u32 lane_id() { return threadIdx.x % 32; }
__device__ __forceinline__ u32 word_id() { return threadIdx.x % WORDS; }
__device__ __forceinline__ u32 warp_id() { return (blockIdx.x * BLOCK + threadIdx.x) / 32; }
__device__ __forceinline__ u32 warps() { return gridDim.x * (BLOCK / 32); }

// Lanes of the calling one's quad for which something holds, as bits from 0 on; all lanes call it.
__device__ __forceinline__ u32 quad_ballot(bool holds) {
    return __ballot_sync(FULL, holds) >> (lane_id() & ~(WORDS - 1u)) & ((1u << WORDS) - 1);
}

// Bits of all sources in a word.
__device__ __forceinline__ u64 all_of(u32 sources, u32 word) {
    if (sources <= 64 * word) return 0;
    const u32 count = sources - 64 * word;
    return count >= 64 ? ~0ull : (1ull << count) - 1;
}

__device__ __forceinline__ Words load_words(const u64* words, u32 row) {
    const ulonglong2* from = (const ulonglong2*)(words + (u64)row * WORDS);
    const ulonglong2 low = from[0], high = from[1];
    return Words{{low.x, low.y, high.x, high.y}};
}

__device__ __forceinline__ void store_words(u64* words, u32 row, const Words& of) {
    ulonglong2* to = (ulonglong2*)(words + (u64)row * WORDS);
    to[0] = make_ulonglong2(of.at[0], of.at[1]);
    to[1] = make_ulonglong2(of.at[2], of.at[3]);
}

__device__ __forceinline__ bool is_any(const Words& of) { return (of.at[0] | of.at[1] | of.at[2] | of.at[3]) != 0; }

__device__ __forceinline__ u64 arcs_of(const Side& side, u32 row) {
    return __ldg(side.offsets + row + 1) - __ldg(side.offsets + row);
}

// Puts rows into a queue, each as one item for every piece of its arcs, one at least. All lanes of
// a warp call it, with NONE where they have no row.
__device__ __forceinline__ void enqueue(const Side& out, u32 row, u64* queue, u64* queued) {
    u32 items = 0;
    if (row != NONE) items = max(1u, (u32)((arcs_of(out, row) + PIECE_ARCS - 1) / PIECE_ARCS));
    const u64 first = take_places(queued, items);
    for (u32 k = 0; k < items; k++) queue[first + k] = (u64)k << 32 | row;
}

// Whether a row is touched for the first time.
__device__ __forceinline__ bool touch(u32* touched, u32 row) {
    const u32 bit = 1u << row % 32;
    if (__ldcg(touched + row / 32) & bit) return false;
    return !(atomicOr(touched + row / 32, bit) & bit);
}

// Row of a front for each lane, NONE where there is none or another item has it.
__device__ __forceinline__ u32 row_of_front(bool is_listed, const u64* queue, u64 at, u64 count) {
    if (at >= count) return NONE;
    if (!is_listed) return (u32)at;
    const u64 item = queue[at];
    return item >> 32 ? NONE : (u32)item;
}
