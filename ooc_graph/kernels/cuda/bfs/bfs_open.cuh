// BFS bottom-up over a list of the rows that are not visited yet.
#pragma once
#include "bfs_tails.cuh"

// Lists the rows not visited yet.
__device__ __noinline__ void list_open(const Graph g, const Search s, Slot* slot, u32* open) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 quad = thread; quad - lane < g.quads; quad += threads) {
        uint4 seen = make_uint4(FULL, FULL, FULL, FULL);
        if (quad < g.quads) seen = __ldcg((const uint4*)s.visited + quad);
        u32 bits[4] = {~seen.x, ~seen.y, ~seen.z, ~seen.w};
        const u32 mine = count_of(make_uint4(bits[0], bits[1], bits[2], bits[3]));
        if (!__any_sync(FULL, mine)) continue;
        u32 at = take_places<true>(&slot->open, mine);
#pragma unroll
        for (int j = 0; j < 4; j++)
            for (u32 rest = bits[j]; rest; rest &= rest - 1) open[at++] = vertex_at(quad * 4 + j, __ffs(rest) - 1);
    }
}

// The listed rows, as far as they are not visited yet. What is found is entered behind `tail` of
// the queue too, unless that is NONE.
__device__ __noinline__ Tally pull_open(const Graph g, const Search s, const Front front, u32* next, Slot* slot,
                                        const u32* open, u32 count, u32 tail, u32 level) {
    Tally tally = {};
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 first = thread - lane; first < count; first += threads) {
        u32 v = first + lane < count ? __ldcg(open + first + lane) : NONE, member = NONE, rest = NONE;
        if (v != NONE && !(__ldcg(s.visited + word_at(v)) & bit_at(v))) {
            uint4 none = make_uint4(NONE, NONE, NONE, NONE);
            u32 h = __ldg(g.head + v);
            uint4 four = v < ROWS_OF_FOUR(g) ? __ldg(g.heads + v) : none;
            uint4 last = v < g.longer5 ? __ldg(g.heads + g.longer1 + v) : none;
            if (holds(front, h)) member = h;
            else member = first_of(front, four, tally);
#if TIERED
            if (member == NONE && last.x != NONE) member = first_of(front, last, tally);
            if (member == NONE && GOES_ON(g, v, four, last)) rest = v;
#else
            if (member == NONE && last.x != NONE) {
                member = first_of(front, last, tally);
                if (member == NONE && last.w != NONE) rest = v;
            }
#endif
#ifdef COUNT
            tally.examined += h != NONE;
#endif
        }
        if (__any_sync(FULL, rest != NONE)) {
            u32 found = scan_tails(g, s, front, slot, rest, tally);
            if (rest != NONE) member = found;
        }
        claim_open(g, s, next, slot, v, member, tail, level, tally);
    }
    return tally;
}
