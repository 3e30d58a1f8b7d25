// What a batch of sources holds, and how it begins.
#pragma once
#include "many_rows.cuh"

// The host sets BLOCK, BLOCKS_A_PROCESSOR, and AHEAD: neighbours that a warp waits for at once.

#define SHARED_ROW 0x80000000u

struct Graph {
    u32 rows, words, tiles;
    const u32* tile; // first arc; SHARED_ROW if the row has other tiles, too
    const u32* neighbor;
    const u32* row;
    const Length* weight;
};

struct Sources {
    u32 count;
    const u32* row; // where the search begins, NONE where it leads nowhere
    const Length* add;
    const u32* own; // column of the source, NONE if it has none
    const Length* potential;
};

// Lengths of paths to the landmarks from each source, and from the landmarks to each row, or nothing.
struct Landmarks {
    const float* to;
    const float* away;
};

// What a batch holds of each row of the core. There are three maps and lows, for a round, the one
// before and the one after; in a `Batch` those of one round.
struct Batch {
    Lane* distance;
    float* reach; // highest length relatively to its origin, or more
    u32* map;     // who improved
    u32* low;     // ordered: lowest length relatively to its origin that improved
};

struct BlockGroup {
    Barrier* barrier;
    u32 blocks, block, warps, warp, goal;
};

__device__ __forceinline__ BlockGroup block_group_of(Barrier* state, u32 blocks) {
    const u32 block = blockIdx.x % blocks, warp = threadIdx.x / 32 * blocks + block;
    return {state + blockIdx.x / blocks, blocks, block, blocks * (BLOCK / 32), warp, 0};
}

// Origins of the batch, and behind them a table or a bitmap.
extern __shared__ uint4 shared[];
#define ORIGINS ((float*)shared)
#define SHARED_WORDS ((u32*)shared + SLOTS)

__device__ __forceinline__ void wait(BlockGroup& group) {
    __syncthreads();
    if (group.blocks != 1) block_barrier(group.barrier, group.goal, group.blocks);
}

// All lengths before a search. If paths over landmarks are known, a length begins at the shortest of
// those: it is above what the search will find, and so nothing longer is ever noted.
__device__ __forceinline__ void forget(const BlockGroup& group, const Graph& g, const Landmarks& landmarks, u32 sources,
                                       u32 first, const Batch& batch) {
    const u32 thread = group.block * BLOCK + threadIdx.x, threads = group.blocks * BLOCK, lane = threadIdx.x % 32;
    float* table = (float*)SHARED_WORDS;
    for (u32 k = thread; k < 3 * g.words; k += threads) batch.map[k] = 0;
    for (u64 k = thread; k < 3 * (u64)g.rows; k += threads) batch.low[k] = NONE;
    if (landmarks.away)
        for (u32 k = threadIdx.x; k < MARKS * SLOTS; k += BLOCK) {
            const u32 source = first + k % SLOTS;
            table[k] = source < sources ? __ldg(landmarks.to + (u64)source * MARKS + k / SLOTS) : INFINITE_FLOAT;
        }
    __syncthreads();
    for (u32 k = threadIdx.x; k < SLOTS; k += BLOCK) {
        float sum = 0, count = 1;
        if (landmarks.away)
            for (u32 mark = 0; mark < MARKS; mark++)
                if (table[mark * SLOTS + k] < INFINITE_FLOAT) {
                    sum += table[mark * SLOTS + k];
                    count += 1;
                }
        ORIGINS[k] = sum < INFINITE_FLOAT ? sum / count : 0;
    }
    __syncthreads();
    for (u32 row = group.warp; row < g.rows; row += group.warps) {
        const float away = landmarks.away ? __ldg(landmarks.away + (u64)row * MARKS + lane) : INFINITE_FLOAT;
        float least[VEC];
#pragma unroll
        for (int k = 0; k < VEC; k++) least[k] = INFINITE_FLOAT;
        if (landmarks.away)
#pragma unroll 8
            for (u32 mark = 0; mark < MARKS; mark++) {
                const float from = __shfl_sync(FULL, away, mark);
#pragma unroll
                for (int k = 0; k < VEC; k++)
                    least[k] = fminf(least[k], __fadd_ru(table[mark * SLOTS + lane * VEC + k], from));
            }
        Lane begin;
        float highest = -INFINITE_FLOAT;
#pragma unroll
        for (int k = 0; k < VEC; k++) {
            // Without a source nothing is less than 0, which nobody lowers.
            begin.at[k] = first + lane * VEC + k < sources ? bounded_by(least[k]) : 0;
            const float bound = begin.at[k] == TOP ? INFINITE_FLOAT : rounded_up(magnitude(begin.at[k]));
            highest = fmaxf(highest, __fsub_ru(bound, ORIGINS[lane * VEC + k]));
        }
        batch.distance[(u64)row * 32 + lane] = begin;
        const u32 reach = __reduce_max_sync(FULL, ordered(highest));
        if (lane == 0) batch.reach[row] = of_ordered(reach);
    }
    __syncthreads(); // the table's memory has another use from here on
}

__device__ __forceinline__ void put_sources(const BlockGroup& group, const Sources& s, u32 first, const Batch& batch) {
    if (group.block) return;
    for (u32 k = threadIdx.x; k < SLOTS && first + k < s.count; k += BLOCK) {
        const u32 row = s.row[first + k];
        if (row == NONE) continue;
        ((Length*)batch.distance)[(u64)row * SLOTS + k] = s.add[first + k];
        batch.low[row] = LOWEST;
        atomicOr(batch.map + row / 32, 1u << row % 32);
    }
}
