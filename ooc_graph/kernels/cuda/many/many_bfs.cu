// BFS from a batch of sources at once, from level to level in one cooperative launch.
#include "many_bfs_settle.cuh"
#include "many_bfs_step.cuh"

__device__ __forceinline__ void clear(u64* words, u64 count) {
    for (u64 k = (u64)blockIdx.x * BLOCK + threadIdx.x; k < count; k += (u64)gridDim.x * BLOCK) words[k] = 0;
}

// Lets every source be found by itself: one block.
__device__ __forceinline__ void put_sources(const Side& out, const Batch& b, const u32* source) {
    for (u32 base = threadIdx.x / 32 * 32; base < b.sources; base += BLOCK) {
        const u32 lane = base + lane_id(), row = lane < b.sources ? source[lane] : NONE;
        if (row != NONE) atomicOr(b.front + (u64)row * WORDS + lane / 64, 1ull << lane % 64);
        enqueue(out, row != NONE && touch(b.touched, row) ? row : NONE, b.queue, &b.level->queued);
    }
}

// `words` are three times (rows, WORDS): who has seen a row, and two fronts. `queues` are two of
// `capacity` items. `levels` are three, of a level, the one after and the one before; so are `counts`
// (SLOTS,). `barrier` is zero before and after. Levels are noted in `planes`, (planes, rows, WORDS)
// with one plane for each bit of `rows`, or tallies made, (sources, 3 + bins), zeros before; or neither.
extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS_A_PROCESSOR)
    many_bfs(u32 rows, const u64* out_offsets, const u32* out_neighbors, const u64* into_offsets, const u32* into_neighbors,
             const u32* order, u32 longer, u32 middle, u32 shorter, u32 sources, const u32* source, u32 most, Barrier* barrier,
             u64* words, u32* touched, u64* queues, u64 capacity, Level* levels, u64* planes, const u32* wanted, u32* counts,
             u32 width, u32 bins, i64* tallies, BatchReport* report) {
    const Side out = {out_offsets, out_neighbors}, into = {into_offsets, into_neighbors};
    const Order ordered = {order, longer, middle, shorter};
    const u64 size = (u64)rows * WORDS;
    u32 goal = 0;
    clear(words, 3 * size);
    for (u64 k = (u64)blockIdx.x * BLOCK + threadIdx.x; k < (rows + 31ull) / 32; k += (u64)gridDim.x * BLOCK) touched[k] = 0;
    if (blockIdx.x == 0) {
        for (u32 k = threadIdx.x; k < 3; k += BLOCK) levels[k] = Level{0, 0, 0, 0, 0};
        for (u32 k = threadIdx.x; k < 3 * SLOTS; k += BLOCK) counts[k] = 0;
    }
    grid_barrier(barrier, goal);
    auto turn = [&](u32 depth) {
        u64* fronts = words + size;
        return Batch{words, fronts + depth % 2 * size, fronts + (depth + 1) % 2 * size, touched,
                     queues + depth % 2 * capacity, queues + (depth + 1) % 2 * capacity,
                     levels + depth % 3, levels + (depth + 1) % 3, rows, sources};
    };
    if (blockIdx.x == 0) put_sources(out, turn(0), source);
    grid_barrier(barrier, goal);
    u64 open = __ldg(into_offsets + rows), visits = 0, found = 0;
    bool is_listed = true, was_listed = true;
    u32 depth = 0;
    for (;; depth++) {
        const Batch b = turn(depth);
        u32* counted = counts + depth % 3 * SLOTS;
        settle(out, into, b, is_listed, depth, Answer{planes, wanted, tallies ? counted : nullptr});
        forget(b, was_listed, b.next_queue, levels + (depth + 2) % 3);
        if (blockIdx.x == 0 && threadIdx.x == 0) *b.next_level = Level{0, 0, 0, 0, 0};
        grid_barrier(barrier, goal);
        const u64 arcs = __ldcg(&b.level->arcs);
        open -= __ldcg(&b.level->filled);
        visits += __ldcg(&b.level->visits);
        found += __ldcg(&b.level->found);
        if (tallies && blockIdx.x == 0) tally(counted, sources, depth, width, bins, tallies);
        if (!arcs || !open || depth >= most) break;
        // A plane is emptied before its first level.
        if (planes && !(depth & (depth + 1))) clear(planes + (31 - __clz(depth + 1)) * size, size);
        const bool is_pulled = arcs * PULL_ABOVE > open;
        if (!is_pulled && !is_listed) {
            list_front(out, b);
            grid_barrier(barrier, goal);
            is_listed = true;
        }
        if (is_pulled) pull(into, ordered, b);
        else push(out, b);
        was_listed = is_listed;
        is_listed = !is_pulled;
        grid_barrier(barrier, goal);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) *report = BatchReport{visits, found, depth, 0};
    leave_grid(barrier);
}
