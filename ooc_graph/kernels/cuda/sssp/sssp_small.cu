// SSSP of a graph that one block holds, for any weights: rows with few in-arcs, and few rows.
//
// Each thread has some rows, with the first in-arcs of each in registers; all lengths stand in shared
// memory, twice. A round looks at every arc, and rounds end when no row comes nearer [1]. Nothing is
// listed and nothing is shared but one barrier a round, which is what rounds of some hundred rows cost
// most: on a road network of a town it is several times as fast as looking at less.
//
// [1] R. Bellman, "On a routing problem", Quarterly of Applied Mathematics 16, 1958.
#include "sssp_sums.cuh"

// The host sets BLOCK, and EACH: rows of a thread.

// In-arcs of a row that are in registers.
#define POSITIONS 4
static_assert(POSITIONS == 4 && BLOCK * EACH * 8 <= 1 << 16, "two positions stand in a word");

struct State {
    u64 unresolved; // reached rows that no neighbour gives a parent: out- and in-rows differ
    u64 phase[4];   // arcs examined: push, pull, finish, parents
    u64 rounds;
};

// Calls `what(j, v)` for this thread's rows, in code of their own each: what they have in registers
// is found by constants.
template <typename What>
__device__ __forceinline__ void over_rows(u32 rows, What what) {
#pragma unroll
    for (u32 j = 0; j < EACH; j++) {
        if (j * BLOCK >= rows) break;
        what(j, j * BLOCK + threadIdx.x);
    }
}

// In-arcs of this thread's rows: the first ones in registers.
struct InArcs {
    const u64* __restrict__ offsets;
    const u32* __restrict__ neighbors;
    const Weight* __restrict__ weights;
    u32 to[EACH][POSITIONS / 2]; // two positions among the lengths, in bytes, of 16 bits in one
    Weight weight[EACH][POSITIONS];
    u32 longer, fuller; // a bit for each row that has more; where any lane's has more than half as many

    // All lanes of a warp call it.
    __device__ __forceinline__ void read(u32 j, u32 v, bool real) {
        const u64 first = real ? offsets[v] : 0, count = real ? offsets[v + 1] - first : 0;
#pragma unroll
        for (u32 k = 0; k < POSITIONS; k++) {
            // In place of none an arc of weight 0 from the row itself, which leads nowhere.
            const u32 position = (k < count ? neighbors[first + k] : v) * (u32)sizeof(Length);
            to[j][k / 2] = k % 2 ? to[j][k / 2] | position << 16 : position;
            weight[j][k] = k < count ? weights[first + k] : 0;
        }
        longer |= (u32)(count > POSITIONS) << j;
        fuller |= (u32)(__any_sync(FULL, count > POSITIONS / 2) != 0) << j;
    }

    // Calls `what(position, weight)` for a row's in-arcs.
    template <typename What>
    __device__ __forceinline__ void over(u32 j, u32 v, What what) const {
#pragma unroll
        for (u32 k = 0; k < POSITIONS; k += 2) {
            if (k && !(fuller >> j & 1)) return;
            what(to[j][k / 2] & 0xFFFF, weight[j][k]);
            what(to[j][k / 2] >> 16, weight[j][k + 1]);
        }
        if (!(longer >> j & 1)) return;
#pragma unroll 1
        for (u64 a = offsets[v] + POSITIONS; a < offsets[v + 1]; a++)
            what(neighbors[a] * (u32)sizeof(Length), weights[a]);
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    sssp_small(u32 rows, const u64* __restrict__ in_offsets, const u32* __restrict__ in_neighbors,
               const Weight* __restrict__ in_weights, const u32* __restrict__ original_of, u32* parent, Length* length,
               State* state, u32 root) {
    extern __shared__ u64 lengths_shared[];
    __shared__ u64 words[32];
    Length* now = (Length*)lengths_shared; // of `padded` rows each
    const u32 padded = (rows + BLOCK - 1) / BLOCK * BLOCK;
    Length* next = now + padded;

    InArcs arcs = {in_offsets, in_neighbors, in_weights};
    Length mine[EACH];
    over_rows(rows, [&](u32 j, u32 v) {
        arcs.read(j, v, v < rows);
        now[v] = next[v] = mine[j] = v == root ? 0 : UNREACHED;
    });
    auto length_at = [](Length* lengths, u32 position) { return *(Length*)((char*)lengths + position); };
    __syncthreads();

    u32 rounds = 0, better, fresh = 0;
    do {
        better = 0;
        over_rows(rows, [&](u32 j, u32 v) {
            Length best = mine[j];
            arcs.over(j, v, [&](u32 position, Weight w) { best = min(best, sum_of(length_at(now, position), w)); });
            better |= (u32)(best < mine[j]) << j;
            // What a round improves, the next one writes to the other copy.
            if ((better | fresh) >> j & 1) next[v] = best;
            mine[j] = best;
        });
        Length* const old = now;
        now = next;
        next = old;
        fresh = better;
        rounds++;
    } while (__syncthreads_or(better));

    // From here on `next` tells of each row whether it still waits for a parent.
    u32 waiting = 0;
    auto name_of = [&](u32 u) { return u != NONE && original_of ? original_of[u] : u; };
    over_rows(rows, [&](u32 j, u32 v) {
        const Length at = mine[j];
        Best best = {UNREACHED, v == root ? root : NONE};
        if (at < UNREACHED)
            arcs.over(j, v, [&](u32 position, Weight w) {
                best.offer(at, position / (u32)sizeof(Length), length_at(now, position), w);
            });
        const bool waits = at < UNREACHED && best.parent == NONE;
        next[v] = waits;
        waiting |= (u32)waits << j;
        if (v >= rows) return;
        length[v] = at;
        parent[v] = name_of(best.parent);
    });
    u32 given;
    do { // rows on plateaus, hop by hop
        __syncthreads();
        given = 0;
        over_rows(rows, [&](u32 j, u32 v) {
            if (!(waiting >> j & 1)) return;
            const Length at = mine[j];
            u32 nearest = NONE;
            arcs.over(j, v, [&](u32 position, Weight w) {
                if (length_at(now, position) == at && sum_of(at, w) == at && !length_at(next, position))
                    nearest = min(nearest, position);
            });
            if (nearest == NONE) return;
            parent[v] = name_of(nearest / (u32)sizeof(Length));
            given |= 1u << j;
        });
        __syncthreads(); // before others see them as hops
        over_rows(rows, [&](u32 j, u32 v) {
            if (given >> j & 1) next[v] = 0;
        });
        waiting &= ~given;
    } while (__syncthreads_or(given));

    if (threadIdx.x == 0) {
        state->unresolved = 0;
        state->phase[0] = state->phase[2] = 0;
        state->phase[1] = rounds * in_offsets[rows];
        state->phase[3] = in_offsets[rows];
        state->rounds = rounds;
    }
    add_from_block(__popc(waiting), &state->unresolved, words);
}
