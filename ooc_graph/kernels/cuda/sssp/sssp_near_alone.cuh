// Rounds of near-far by one block alone, and what all blocks know between rounds.
#pragma once
#include "sssp_near_parents.cuh"
#include "sssp_near_relax.cuh"

// The step is halved where more than one in this many of the arcs improved a row once more, and
// doubled where fewer than one in that many did,
#ifndef AGAIN_MOST
#define AGAIN_MOST 4
#endif
#ifndef AGAIN_LEAST
#define AGAIN_LEAST 16
#endif
// or where a round had fewer rows than this, which leaves a block idle.
#ifndef NARROW
#define NARROW 128
#endif

struct Slot {
    u64 examined, again, found;
    u64 least; // complement of a length
    u32 near, far, dropped;
};

// What all blocks know between rounds; written by the block that was alone, for the others.
struct Plan {
    Length bound;
    Step step;
    u64 examined, again; // since the bound rose
    u64 entries, rounds; // the same
    u64 looked;          // arcs in all
    u32 count, turn, far, far_turn, dropped, settled;
};

struct State {
    Barrier barrier;
    u64 unresolved; // reached rows that no neighbour gives a parent: out- and in-rows differ
    u64 phase[4];   // arcs examined: push, pull, finish, parents
    u64 alone, together, raises; // rounds of one block, of the grid; times the bound rose
    Plan plan;
    Slot slot[4];
};

struct Block {
    u64 words[32];
    Best best[32];
    u32 near[4], far, dropped;
};

// The smallest, or the sum, of what all threads of a block have; they all get it.
template <bool LEAST>
__device__ u64 of_block(u64 value, u64* words) {
    auto both = [](u64 a, u64 b) { return LEAST ? min(a, b) : a + b; };
    for (int step = 16; step; step >>= 1) value = both(value, __shfl_xor_sync(FULL, value, step));
    __syncthreads();
    if (threadIdx.x % 32 == 0) words[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < blockDim.x / 32 ? words[threadIdx.x % 32] : LEAST ? ~0ull : 0;
    for (int step = 16; step; step >>= 1) value = both(value, __shfl_xor_sync(FULL, value, step));
    return value;
}

// Adapts the step, when a bound has been reached.
__device__ __forceinline__ void adapt(Plan& plan) {
    if (plan.again * AGAIN_MOST > plan.examined) plan.step /= 2;
    else if (plan.again * AGAIN_LEAST < plan.examined || plan.entries < plan.rounds * NARROW) plan.step += plan.step;
    plan.looked += plan.examined;
    plan.examined = plan.again = plan.entries = plan.rounds = 0;
}

// Rounds by this block alone, while they are small; the plan then says what is left.
__device__ __forceinline__ void go_alone(const Graph& g, Search s, Plan& plan, uint4* front, Block& block, u64& rounds,
                                         u64& raises) {
    const u32 thread = threadIdx.x;
    Length* const all = s.length;
    if (SMALL) {
        s.length = (Length*)(front + 2 * FRONT);
        for (u32 v = thread; v < g.rows; v += blockDim.x) s.length[v] = __ldcg(all + v);
    }
    for (u32 i = thread; i < plan.count; i += blockDim.x) front[i] = __ldcg(s.near[plan.turn] + i);
    if (thread == 0) {
        block.near[0] = 0;
        block.far = plan.far;
        block.dropped = plan.dropped;
    }
    __syncthreads();
    u32 round = 0;
    auto wave = [&]() -> Wave { // and makes the counter of the round after ready
        if (thread == 0) block.near[(round + 1) & 3] = 0;
        return {front + round % 2 * FRONT, plan.count, plan.bound, front + (round + 1) % 2 * FRONT, s.near[0],
                block.near + (round & 3), s.near_capacity, s.far[plan.far_turn], &block.far, 0,
                s.far_capacity, &block.dropped};
    };
    Tally tally = {0, 0};
    auto add_up = [&]() {
        const u64 both = of_block<false>((u64)tally.examined << 32 | tally.again, block.words);
        plan.examined += both >> 32;
        plan.again += both & NONE;
        tally = {0, 0};
    };
    for (;;) {
        while (plan.count && plan.count <= FRONT) {
            relax_round<true, ARCS>(g, s, wave(), tally);
            plan.entries += plan.count;
            plan.rounds++;
            rounds++;
            __syncthreads();
            plan.count = block.near[round++ & 3];
        }
        if (plan.count || block.dropped || block.far > FRONT_FAR) break;
        const FromList<true> list = {s.far[plan.far_turn], s.length, min(block.far, s.far_capacity)};
        add_up();
        const Length least = (Length)of_block<true>(smallest_waiting<true>(list), block.words);
        if (least >= UNREACHED) {
            plan.settled = 1;
            break;
        }
        adapt(plan);
        plan.bound = bound_above(least, plan.step);
        plan.far_turn ^= 1;
        raises++;
        if (thread == 0) block.far = 0;
        __syncthreads();
        sort_out<true>(list, wave());
        __syncthreads();
        plan.count = block.near[round++ & 3];
    }
    add_up(); // and all see what the others wrote
    if (SMALL)
        for (u32 v = thread; v < g.rows; v += blockDim.x) all[v] = s.length[v];
    for (u32 i = thread; i < min(plan.count, FRONT); i += blockDim.x) s.near[0][i] = front[round % 2 * FRONT + i];
    plan.count = min(plan.count, s.near_capacity);
    plan.turn = 0;
    plan.far = min(block.far, s.far_capacity);
    plan.dropped = block.dropped;
}
