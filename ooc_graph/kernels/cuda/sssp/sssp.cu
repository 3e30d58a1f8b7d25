// Push-pull SSSP of one whole graph in one cooperative launch, weights and distances of 32 bits.
//
// Rows are light-first. From the root, arcs are relaxed below a bound that rises until the core of
// hubs is settled (label-correcting rounds; a row remembers how far it has gone). All other rows
// then pull along their lightest arcs and stop at the first that can not help. What the second pull
// changed is pushed to the end. Distances are the greatest fixed point, so no order matters; parents
// follow from them by the rule of docs/storage.md.
//
// Distances are float32 or, with INTEGERS, sums that stay at the top (`sssp_sums.cuh`).
#include "sssp_push.cuh"
#include "sssp_pull.cuh"
#include "sssp_parents.cuh"

__device__ __forceinline__ u32 block_max(u32 value, u32* scratch) {
    value = __reduce_max_sync(FULL, value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x < blockDim.x / 32 ? scratch[threadIdx.x] : 0;
    return __reduce_max_sync(FULL, value); // right in the first warp
}

extern "C" __global__ void __launch_bounds__(1024, 1)
    sssp_search(u32 rows, u32 quads, u64 arcs, const u64* out_offsets, const u32* out_neighbors,
                const u32* out_weights, const u32* lightest, u32 lightest_shift, const u64* in_offsets,
                const u32* in_neighbors, const u32* in_weights, const uint2* head, const u32* second,
                const uint4* pair, const uint4* pair2, u32 longer1, u32 longer3, u32 hubs, const u32* original_of,
                u32* parent, u32* distance, u64* record, u32* marks, u32* resolved, u32* queue, u32* starts,
                u64* pieces, u32 piece_capacity, State* state, float step, u32 heaviest, u32 root
#if TIERED
                , const u32* out_starts, const u32* out_near, const u32* out_near_weights, const u32* in_starts,
                const u32* in_near, const u32* in_near_weights
#endif
    ) {
    extern __shared__ uint4 shared[];
    __shared__ u64 scratch[32];
    WarpBuffer& buffer = ((WarpBuffer*)shared)[threadIdx.x / 32];
    const Graph g = {rows, quads, out_offsets, out_neighbors, out_weights, lightest, lightest_shift, in_offsets,
                     in_neighbors, in_weights, head, second, pair, pair2, longer1, longer3, hubs, original_of
#if TIERED
                     , {out_starts, out_near, out_near_weights}, {in_starts, in_near, in_near_weights}
#endif
    };
    const Search s = {parent, distance, record, marks, resolved, {queue, starts}, pieces, piece_capacity};
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const bool chief = thread == 0;
    u32 goal = 0, tick = 0;
    Slot* slot = state->slot;
    // Everybody is through with the slot behind the next one when a new one is begun.
    auto next_slot = [&]() {
        slot = state->slot + (++tick & 3);
        if (chief) state->slot[(tick + 2) & 3] = Slot{};
    };
    auto wait = [&]() { grid_barrier(&state->barrier, goal); };

    for (u32 q = thread; q < quads * 32; q += threads)
        ((uint4*)distance)[q] = make_uint4(UNREACHED, UNREACHED, UNREACHED, UNREACHED);
    clear(marks, quads);
    clear(resolved, quads);
    if (chief)
        for (int k = 0; k < 4; k++) {
            state->slot[k] = Slot{};
            state->phase[k] = 0;
        }
    wait();
    if (chief) {
        distance[root] = 0;
        record[root] = ~0ull;
        parent[0] = queue[0] = root;
    }
    wait();

    // Push below a rising bound.
    u32 *now = queue, *later = starts, *now_marks = marks, *later_marks = resolved;
    u32 reached = 1, count = 1, bound = 0, inner = 0, floor = 0, rounds = 0, raises = 0;
    u64 examined = 0, reached_arcs = out_degree(g, root);
    bool growing = true, settled = false;
    auto relax = [&](u32 limit, bool note) { // to the fixed point below the limit
        u64 looked = 0, again = 0;
        while (count) {
            next_slot();
            rounds++;
            const Wave wave = {now, now_marks, later, later_marks, count, reached, limit, note};
            Tally tally = relax_queue(g, s, slot, wave);
            add_from_block(tally.examined << 28 | tally.again, &slot->examined, scratch);
            if (note && growing) add_from_block(tally.arcs, &slot->arcs, scratch);
            wait();
            const u32 rest = __ldcg(&slot->pieces);
            if (rest) {
                tally = relax_pieces(g, s, slot, wave, rest);
                add_from_block(tally.examined << 28 | tally.again, &slot->examined, scratch);
                if (note && growing) add_from_block(tally.arcs, &slot->arcs, scratch);
                wait();
            }
            count = __ldcg(&slot->count);
            const u64 both = __ldcg(&slot->examined);
            looked += both >> 28;
            again += both & ((1u << 28) - 1);
            if (note) {
                reached += __ldcg(&slot->reached);
                reached_arcs += __ldcg(&slot->arcs);
            }
            u32 *other = now, *other_marks = now_marks;
            now = later;
            now_marks = later_marks;
            later = other;
            later_marks = other_marks;
        }
        if (note) {
            if (again * 4 > looked) step /= 2;
            else if (again * 16 < looked) step += step;
        }
        return looked;
    };
    for (;;) {
        examined += relax(bound, true);
        next_slot();
        const u32 most = block_max(~smallest_candidate(g, s, reached), (u32*)scratch);
        if (threadIdx.x == 0) atomicMax(&slot->least, most);
        wait();
        const u32 smallest = ~__ldcg(&slot->least);
        if (growing && reached_arcs * ENOUGH_PUSHED < arcs) {
            inner = reached;
            floor = smallest;
        } else {
            growing = false;
        }
        settled = smallest == UNREACHED;
        if (settled || examined * ENOUGH_PUSHED >= arcs) break;
        bound = bound_above(smallest, step);
        raises++;
        next_slot();
        wake(g, s, slot, now, now_marks, reached, bound);
        wait();
        count = __ldcg(&slot->count);
    }
    u64 phase[4] = {examined, 0, 0, 0};
    const u32 beyond = floor;
    if (!settled && inner) {
        next_slot();
        enter_inner(g, s, slot, inner, false);
        wait();
        const u32 total = (u32)(__ldcg(&slot->queued) & ARC_MASK);
        push_inner(g, s, inner, total);
        phase[0] += total;
        wait();
    }

    // Pull until nothing changes, or pushing what changed is cheaper.
    u32 passes = 0;
    while (!settled) {
        next_slot();
        Pulled sum = {0, 0, 0, 0, UNREACHED, 0};
        pull_pass(g, s, bound, floor, passes > 0, buffer, sum);
        passes++;
        add_from_block(sum.examined, &slot->examined, scratch);
        add_from_block(sum.arcs, &slot->arcs, scratch);
        add_from_block((u64)sum.changed << 32 | sum.reached, &slot->queued, scratch);
        const u32 least = block_max(~sum.least, (u32*)scratch), most = block_max(sum.most, (u32*)scratch);
        if (threadIdx.x == 0) {
            atomicMax(&slot->least, least);
            atomicMax(&slot->most, most);
        }
        wait();
        const u64 pulled = __ldcg(&slot->examined), changed_arcs = __ldcg(&slot->arcs);
        const u64 both = __ldcg(&slot->queued);
        const u32 high = __ldcg(&slot->most);
        phase[1] += pulled;
        if (!(both >> 32)) break;
        floor = ~__ldcg(&slot->least);
        bound = max(bound, floor);
        if (passes > 1 && changed_arcs * 2 <= pulled + rows) {
            next_slot();
            now_marks = marks;
            later_marks = resolved;
            list_marked(g, s, slot, now);
            wait();
            count = __ldcg(&slot->count);
            // If the pass reached no new row, no later one does, and nothing beyond the farthest is of use.
            // That is not so if a sum overflowed: the row that it did not reach may be reached by a less one.
            const bool last = !(u32)both && sum_of(high, heaviest) != UNREACHED;
            phase[2] = relax(last ? high : UNREACHED - 1, false);
            break;
        }
    }

    // Parents. Inner vertices are nearer than all others, so who has one of them needs no other.
    if (inner) {
        next_slot();
        enter_inner(g, s, slot, inner, true);
        wait();
        const u32 total = (u32)(__ldcg(&slot->queued) & ARC_MASK);
        for (u32 k = 0; k < 3; k++) {
            offer_inner(g, s, inner, total, k);
            wait();
        }
        phase[3] += total;
    }
    next_slot();
    u64 looked = 0;
    parent_pass(g, s, slot, root, beyond, buffer, looked);
    clear(marks, quads);
    add_from_block(looked, &slot->examined, scratch);
    wait();
    phase[3] += __ldcg(&slot->examined);
    const u32 flat = __ldcg(&slot->count);
    u32 unresolved = 0;
    if (flat) {
        for (u32 i = thread; i < flat; i += threads) {
            const u32 v = __ldcg(queue + i);
            atomicOr(marks + (v >> 5), bit_of(v));
        }
        wait();
        for (unresolved = flat; unresolved;) {
            next_slot();
            plateau_step(g, s, flat, false);
            wait();
            add_from_block(plateau_step(g, s, flat, true), &slot->examined, scratch);
            wait();
            const u32 found = (u32)__ldcg(&slot->examined);
            if (!found) break;
            unresolved -= found;
        }
    }
    if (chief) {
        for (int k = 0; k < 4; k++) state->phase[k] = phase[k];
        state->passes = passes;
        state->rounds = rounds;
        state->raises = raises;
        state->inner = inner;
        state->unresolved = unresolved;
    }
    leave_grid(&state->barrier);
}
