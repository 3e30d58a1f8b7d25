// Near-far SSSP of one whole graph in one cooperative launch, for any weights.
//
// Rows within a bound are relaxed whole, round by round; what lies beyond waits in a list, and the
// bound rises when no row within it is left [1]. A round of few rows is done by one block, which keeps
// them in shared memory and meets no barrier but its own, while the grid waits: on road networks
// nearly all of some thousand rounds. A round of many is shared out to the grid. Lists may be too
// short: then all rows are looked through. Parents follow from the final lengths.
//
// [1] A. Davidson et al., "Work-efficient parallel GPU methods for single-source shortest paths",
// IPDPS 2014.
#include "sssp_near_alone.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    sssp_near(u32 rows, const u64* out_offsets, const u32* out_neighbors, const Weight* out_weights,
              const u64* in_offsets, const u32* in_neighbors, const Weight* in_weights, const uint4* fixed_neighbors,
              const Weight* fixed_weights, u32 giants, u32 hubs, u32 lane_bits,
              const u32* original_of, u32* parent, Length* length, Length* done, u32* marks, uint4* near, uint4* far,
              u64 near_stride, u32 near_capacity, u32 far_capacity, State* state, double step, u32 root) {
    extern __shared__ uint4 front[];
    __shared__ Block block;
    const Graph g = {rows,       out_offsets,     out_neighbors, out_weights, in_offsets, in_neighbors,
                     in_weights, fixed_neighbors, fixed_weights, giants,      hubs,       lane_bits,
                     original_of};
    const Search s = {length, done, parent, marks, (u32*)near, {near, near + near_stride}, {far, far + far_capacity},
                      near_capacity, far_capacity};
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const bool chief = thread == 0;
    u32 goal = 0, tick = 0;
    u64 together = 0, alone = 0, raises = 0;
    Slot* slot = state->slot;
    // Everybody is through with the slot behind the next one when a new one is begun.
    auto next_slot = [&]() {
        slot = state->slot + (++tick & 3);
        if (chief) state->slot[(tick + 2) & 3] = Slot{};
    };
    auto wait = [&]() { grid_barrier(&state->barrier, goal); };

    for (u64 v = thread; v < rows; v += threads) {
        length[v] = v == root ? 0 : UNREACHED;
        done[v] = UNREACHED;
    }
    for (u64 word = thread; word * 32 < rows; word += threads) marks[word] = 0;
    if (chief) {
        for (int k = 0; k < 4; k++) state->slot[k] = Slot{};
        near[0] = pack(0, root, 0);
    }
    Plan plan = {};
    plan.step = (Step)step;
    plan.bound = bound_above(0, plan.step);
    plan.count = 1;
    wait();

    while (!plan.settled) {
        if (plan.count ? plan.count <= FRONT : !plan.dropped && plan.far <= FRONT_FAR) {
            if (blockIdx.x == 0) {
                go_alone(g, s, plan, front, block, alone, raises);
                if (chief) state->plan = plan;
            }
            wait();
            if (blockIdx.x) {
                // Loads past the cache of this multiprocessor, where an older plan may lie.
                u32* mine = (u32*)&plan;
                const u32* theirs = (const u32*)&state->plan;
#pragma unroll
                for (u32 k = 0; k < sizeof(Plan) / 4; k++) mine[k] = __ldcg(theirs + k);
            }
            if (!plan.settled) wait(); // before there is another
            continue;
        }
        next_slot();
        Wave wave = {s.near[plan.turn], plan.count, plan.bound, nullptr, s.near[plan.turn ^ 1], &slot->near,
                     near_capacity, s.far[plan.far_turn], &slot->far, plan.far, far_capacity, &slot->dropped};
        if (plan.count) {
            Tally tally = {0, 0};
            relax_round<false, ARCS>(g, s, wave, tally);
            add_from_block(tally.examined, &slot->examined, block.words);
            add_from_block(tally.again, &slot->again, block.words);
            wait();
            plan.examined += __ldcg(&slot->examined);
            plan.again += __ldcg(&slot->again);
            plan.entries += plan.count;
            plan.rounds++;
            together++;
            plan.far += __ldcg(&slot->far);
            plan.dropped |= __ldcg(&slot->dropped);
        } else {
            const FromList<false> list = {s.far[plan.far_turn], length, plan.far};
            const FromRows all = {length, done, rows};
            const u64 least = of_block<true>(plan.dropped ? smallest_waiting<false>(all) : smallest_waiting<false>(list),
                                             block.words);
            if (threadIdx.x == 0) atomicMax(&slot->least, ~least);
            wait();
            const u64 smallest = ~__ldcg(&slot->least);
            if (smallest >= UNREACHED) {
                plan.settled = 1;
                break;
            }
            adapt(plan);
            if (smallest > plan.bound) plan.bound = bound_above((Length)smallest, plan.step);
            raises++;
            plan.far_turn ^= 1;
            next_slot();
            wave.bound = plan.bound;
            wave.next_count = &slot->near;
            wave.far = s.far[plan.far_turn];
            wave.far_count = &slot->far;
            wave.far_base = 0;
            wave.dropped = &slot->dropped;
            if (plan.dropped) sort_out<false>(all, wave);
            else sort_out<false>(list, wave);
            wait();
            plan.far = __ldcg(&slot->far);
            plan.dropped = __ldcg(&slot->dropped);
        }
        plan.far = min(plan.far, far_capacity);
        plan.count = min(__ldcg(&slot->near), near_capacity);
        plan.turn ^= 1;
    }

    next_slot();
    const u64 looked = parent_pass(g, s, &slot->near, root, block.best);
    add_from_block(looked, &slot->examined, block.words);
    wait();
    const u64 examined = __ldcg(&slot->examined);
    const u32 flat = __ldcg(&slot->near);
    u32 unresolved = 0;
    if (flat) {
        for (u32 i = thread; i < flat; i += threads) {
            const u32 v = __ldcg(s.flat + i);
            atomicOr(marks + (v >> 5), 1u << (v & 31));
        }
        wait();
        for (unresolved = flat; unresolved;) {
            next_slot();
            plateau_step(g, s, flat, false);
            wait();
            add_from_block(plateau_step(g, s, flat, true), &slot->found, block.words);
            wait();
            const u32 found = (u32)__ldcg(&slot->found);
            if (!found) break;
            unresolved -= found;
        }
    }
    if (chief) {
        state->phase[0] = plan.looked + plan.examined;
        state->phase[1] = state->phase[2] = 0;
        state->phase[3] = examined;
        state->unresolved = unresolved;
        state->alone = alone;
        state->together = together;
        state->raises = raises;
    }
    leave_grid(&state->barrier);
}

#if FIXED
// Fills the fixed places of rows.
extern "C" __global__ void fix_rows(u32 rows, const u64* offsets, const u32* neighbors, const Weight* weights,
                                    u32* fixed_neighbors, Weight* fixed_weights) {
    const u64 v = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= rows) return;
    const u64 first = offsets[v], arcs = offsets[v + 1] - first;
    for (u32 k = 0; k < 4; k++) {
        const u64 arc = first + (k == 3 && arcs > 4 ? 2 : k);
        fixed_neighbors[4 * v + k] = k < arcs ? neighbors[arc] : NONE;
        fixed_weights[4 * v + k] = k < arcs ? weights[arc] : 0;
    }
}
#endif
