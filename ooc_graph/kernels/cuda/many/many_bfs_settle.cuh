// What a level found becomes seen, and is counted or noted.
//
// The level of a row is noted for all sources at once: plane p has, of each row, the bits of the
// sources whose level has bit p. Counts of each source are the sums of columns of the front's bits:
// 32 rows at a time are transposed in a warp, and then each lane counts the bits of one source.
#pragma once
#include "many_bfs_state.cuh"

// What is noted or counted; nothing where there is no pointer. `wanted`: bitmap of rows that count.
struct Answer {
    u64* planes;
    const u32* wanted;
    u32* counts; // of one level
};

struct Counted {
    u64 arcs, filled, visits, found;
};

// Lane i gets in bit j what lane j has in bit i. All lanes of a warp call it.
__device__ __forceinline__ u32 transposed(u32 bits) {
    u32 mask = 0x0000FFFFu;
#pragma unroll
    for (int step = 16; step; step >>= 1) {
        const u32 other = __shfl_xor_sync(FULL, bits, step);
        bits = lane_id() & step ? (bits & ~mask) | (other >> step & mask) : (bits & mask) | (other << step & ~mask);
        mask ^= mask << (step >> 1);
    }
    return bits;
}

// Adds 32 rows' bits to the counts of the sources, of which each lane has one of every 32.
__device__ __forceinline__ void count_columns(const Words& of, u32 (&count)[HALVES]) {
#pragma unroll
    for (int k = 0; k < HALVES; k++) {
        const u32 bits = (u32)(of.at[k / 2] >> 32 * (k % 2));
        if (__any_sync(FULL, bits != 0)) count[k] += __popc(transposed(bits));
    }
}

// Notes a row's level for the sources that found it.
__device__ __forceinline__ void note_level(u64* planes, u32 rows, u32 row, u32 depth, const Words& found) {
    for (u32 left = depth; left; left &= left - 1) {
        u64* plane = planes + (u64)(__ffs(left) - 1) * rows * WORDS;
        Words of = load_words(plane, row);
#pragma unroll
        for (int k = 0; k < WORDS; k++) of.at[k] |= found.at[k];
        store_words(plane, row, of);
    }
}

// Takes what a row's front has into what is seen there.
__device__ __forceinline__ void settle_row(const Side& out, const Side& into, const Batch& b, u32 row, const Words& found,
                                           Counted& counted) {
    Words seen = load_words(b.seen, row);
    u64 missing = 0;
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        seen.at[k] |= found.at[k];
        missing |= all_of(b.sources, k) & ~seen.at[k];
        counted.found += __popcll(found.at[k]);
    }
    store_words(b.seen, row, seen);
    counted.visits++;
    counted.arcs += arcs_of(out, row);
    if (!missing) counted.filled += arcs_of(into, row);
}

// Adds what a block has counted to the level; all threads call it.
__device__ __forceinline__ void add_counted(const Counted& counted, Level* level) {
    __shared__ u64 scratch[BLOCK / 32];
    if (!__syncthreads_or(counted.visits != 0)) return;
    add_from_block(counted.arcs, &level->arcs, scratch);
    add_from_block(counted.filled, &level->filled, scratch);
    add_from_block(counted.visits, &level->visits, scratch);
    add_from_block(counted.found, &level->found, scratch);
}

// Adds what the warps of a block have counted of each source; all threads call it.
__device__ __forceinline__ void add_columns(const u32 (&count)[HALVES], u32* counts) {
    __shared__ u32 together[SLOTS];
    u32 some = 0;
#pragma unroll
    for (int k = 0; k < HALVES; k++) some |= count[k];
    if (!__syncthreads_or(some != 0)) return;
    for (u32 k = threadIdx.x; k < SLOTS; k += BLOCK) together[k] = 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < HALVES; k++)
        if (count[k]) atomicAdd(together + k * 32 + lane_id(), count[k]);
    __syncthreads();
    for (u32 k = threadIdx.x; k < SLOTS; k += BLOCK)
        if (together[k]) atomicAdd(counts + k, together[k]);
}

__device__ __forceinline__ void settle(const Side& out, const Side& into, const Batch& b, bool is_listed, u32 depth,
                                       const Answer& answer) {
    const u64 items = is_listed ? __ldcg(&b.level->queued) : b.rows;
    Counted counted = {0, 0, 0, 0};
    u32 count[HALVES] = {};
    for (u64 base = (u64)warp_id() * 32; base < items; base += (u64)warps() * 32) {
        const u32 row = row_of_front(is_listed, b.queue, base + lane_id(), items);
        Words found = {{0, 0, 0, 0}};
        if (row != NONE) found = load_words(b.front, row);
        if (is_any(found)) {
            settle_row(out, into, b, row, found, counted);
            if (answer.planes) note_level(answer.planes, b.rows, row, depth, found);
            if (is_listed) b.touched[row / 32] = 0;
        }
        if (answer.counts) {
            if (row == NONE || !(__ldg(answer.wanted + row / 32) >> row % 32 & 1)) found = Words{{0, 0, 0, 0}};
            count_columns(found, count);
        }
    }
    add_counted(counted, b.level);
    if (answer.counts) add_columns(count, answer.counts);
}

// Empties what was the front before, so that the next level finds nothing there.
__device__ __forceinline__ void forget(const Batch& b, bool was_listed, const u64* queue, const Level* level) {
    const u64 items = was_listed ? __ldcg(&level->queued) : b.rows;
    const Words nothing = {{0, 0, 0, 0}};
    for (u64 at = (u64)blockIdx.x * BLOCK + threadIdx.x; at < items; at += (u64)gridDim.x * BLOCK) {
        const u32 row = row_of_front(was_listed, queue, at, items);
        if (row != NONE) store_words(b.next, row, nothing);
    }
}

// Adds a level's counts to the tallies of the sources, and leaves zeros: one block.
__device__ __forceinline__ void tally(u32* counts, u32 sources, u32 depth, u32 width, u32 bins, i64* tallies) {
    for (u32 k = threadIdx.x; k < sources; k += BLOCK) {
        const i64 count = __ldcg(counts + k);
        if (!count) continue;
        counts[k] = 0;
        i64* mine = tallies + (u64)k * (3 + bins);
        mine[0] += count;
        mine[1] += count * depth;
        mine[2] = depth;
        if (bins) mine[3 + min(depth / width, bins - 1)] += count;
    }
}
