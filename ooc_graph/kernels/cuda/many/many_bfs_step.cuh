// From one level to the next: rows of the front push to their neighbours, or rows that are not full
// pull from theirs.
#pragma once
#include "many_bfs_state.cuh"

// ORs words of the front: each lane of a quad holds a neighbour, or NONE, and gets its own word of
// all four. All lanes of a warp call it.
__device__ __forceinline__ u64 words_of(const u64* front, u32 neighbor) {
    u64 some[WORDS];
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        const u32 from = __shfl_sync(FULL, neighbor, k, WORDS);
        some[k] = from == NONE ? 0 : front[(u64)from * WORDS + word_id()];
    }
    return (some[0] | some[1]) | (some[2] | some[3]);
}

// ORs the words of all quads.
__device__ __forceinline__ u64 joined(u64 word) {
#pragma unroll
    for (int step = WORDS; step < 32; step <<= 1) word |= __shfl_xor_sync(FULL, word, step);
    return word;
}

// A block has a row. It looks whether something is missing after so many arcs, and then after twice
// as many again and again.
__device__ __forceinline__ void pull_longer(const Side& into, const Order& order, const Batch& b) {
    __shared__ u64 together[WORDS];
    const u32 lane = lane_id(), word = word_id();
    for (u32 at = blockIdx.x; at < order.longer; at += gridDim.x) {
        const u32 row = __ldg(order.row + at);
        const u64 missing = all_of(b.sources, word) & ~b.seen[(u64)row * WORDS + word];
        if (threadIdx.x < WORDS) together[threadIdx.x] = 0;
        if (!__syncthreads_or(missing != 0)) continue;
        const u64 end = __ldg(into.offsets + row + 1);
        u64 length = 2 * BLOCK;
        for (u64 begin = __ldg(into.offsets + row); begin < end; begin += length, length *= 2) {
            const u64 stop = min(begin + length, end);
            u64 got = 0;
            for (u64 base = begin + threadIdx.x / 32 * 32; base < stop; base += BLOCK)
                got |= words_of(b.front, base + lane < stop ? __ldg(into.neighbors + base + lane) : NONE);
            got = joined(got) & missing;
            if (lane < WORDS && got) atomicOr(together + lane, got);
            __syncthreads();
            const u64 left = missing & ~together[word];
            if (!__syncthreads_or(left != 0)) break;
        }
        if (threadIdx.x < WORDS) b.next[(u64)row * WORDS + threadIdx.x] = together[threadIdx.x];
        __syncthreads();
    }
}

// A warp has a row.
__device__ __forceinline__ void pull_middle(const Side& into, const Order& order, const Batch& b) {
    const u32 lane = lane_id(), word = word_id();
    for (u64 at = warp_id(); at < order.middle; at += warps()) {
        const u32 row = __ldg(order.row + order.longer + at);
        const u64 missing = all_of(b.sources, word) & ~b.seen[(u64)row * WORDS + word];
        if (!__any_sync(FULL, missing != 0)) continue;
        const u64 end = __ldg(into.offsets + row + 1);
        u64 got = 0;
        for (u64 base = __ldg(into.offsets + row); base < end; base += 32) {
            got |= words_of(b.front, base + lane < end ? __ldg(into.neighbors + base + lane) : NONE);
            got = joined(got);
            if (!__any_sync(FULL, (missing & ~got) != 0)) break;
        }
        got &= missing;
        if (lane < WORDS && got) b.next[(u64)row * WORDS + word] = got;
    }
}

// A quad has a row.
__device__ __forceinline__ void pull_shorter(const Side& into, const Order& order, const Batch& b) {
    const u32 word = word_id();
    const u32* rows = order.row + order.longer + order.middle;
    for (u64 base = (u64)warp_id() * QUADS; base < order.shorter; base += (u64)warps() * QUADS) {
        const u64 position = base + lane_id() / WORDS;
        const u32 row = position < order.shorter ? __ldg(rows + position) : NONE;
        const u64 missing = row == NONE ? 0 : all_of(b.sources, word) & ~b.seen[(u64)row * WORDS + word];
        u64 at = 0, end = 0, got = 0;
        if (quad_ballot(missing != 0)) {
            at = __ldg(into.offsets + row);
            end = __ldg(into.offsets + row + 1);
        }
        while (__any_sync(FULL, at < end)) {
            got |= words_of(b.front, at + word < end ? __ldg(into.neighbors + at + word) : NONE);
            at += WORDS;
            if (!quad_ballot((missing & ~got) != 0)) at = end;
        }
        got &= missing;
        if (got) b.next[(u64)row * WORDS + word] = got;
    }
}

__device__ __forceinline__ void pull(const Side& into, const Order& order, const Batch& b) {
    pull_longer(into, order, b);
    pull_middle(into, order, b);
    pull_shorter(into, order, b);
}

// Lists a front that was pulled, for `push`.
__device__ __forceinline__ void list_front(const Side& out, const Batch& b) {
    for (u64 base = (u64)warp_id() * 32; base < b.rows; base += (u64)warps() * 32) {
        const u64 row = base + lane_id();
        const bool is_there = row < b.rows && is_any(load_words(b.front, (u32)row));
        if (__any_sync(FULL, is_there)) enqueue(out, is_there ? (u32)row : NONE, b.queue, &b.level->queued);
    }
}

// Tells four neighbours, one of each lane of a quad, of the front's bits that they have not seen.
// Returns whether the calling lane's own one has heard of some. All lanes of a warp call it.
__device__ __forceinline__ bool tell(const Batch& b, u32 neighbor, u64 bits) {
    u64 some[WORDS];
    bool has_news = false;
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        const u32 to = __shfl_sync(FULL, neighbor, k, WORDS);
        some[k] = to == NONE ? 0 : bits & ~b.seen[(u64)to * WORDS + word_id()];
    }
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        const u32 to = __shfl_sync(FULL, neighbor, k, WORDS);
        if (some[k]) {
            u64* at = b.next + (u64)to * WORDS + word_id();
            if (some[k] & ~__ldcg(at)) atomicOr(at, some[k]);
        }
        const u32 quad = quad_ballot(some[k] != 0);
        if (k == (int)word_id()) has_news = quad != 0;
    }
    return has_news;
}

// A warp has an item of the queue.
__device__ __forceinline__ void push(const Side& out, const Batch& b) {
    const u64 items = __ldcg(&b.level->queued);
    for (u64 at = warp_id(); at < items; at += warps()) {
        const u64 item = b.queue[at];
        const u32 row = (u32)item;
        const u64 begin = __ldg(out.offsets + row) + (item >> 32) * PIECE_ARCS;
        const u64 end = min(begin + PIECE_ARCS, __ldg(out.offsets + row + 1));
        const u64 bits = b.front[(u64)row * WORDS + word_id()];
        for (u64 base = begin; base < end; base += 32) {
            const u64 position = base + lane_id();
            const u32 neighbor = position < end ? __ldg(out.neighbors + position) : NONE;
            const bool is_new = tell(b, neighbor, bits) && touch(b.touched, neighbor);
            if (__any_sync(FULL, is_new)) enqueue(out, is_new ? neighbor : NONE, b.next_queue, &b.next_level->queued);
        }
    }
}
