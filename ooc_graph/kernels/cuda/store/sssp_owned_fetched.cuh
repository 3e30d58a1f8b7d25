// What an SSSP rank that has the distances of its own rows alone does with arcs that were fetched, beside the passes
// of `sssp_owned.cu` along them: what comes before these, and after them.
#pragma once
#include "sssp_rank_arcs.cuh"

// Measures how many of a row's arcs have candidates up to the bound, or up to the row's own distance if that is
// farther: arcs[i], neighbours from first[i] on and weights from weighs[i] on. The row is at[i] now: passes along
// these arcs change distances.
extern "C" __global__ void measure_fetched(FETCHED, const DIST* distance, DIST bound, DIST top, u64* first,
                                           u64* weighs, DIST* at, u64* arcs) {
    over_lanes(count, [&](u64 i, bool real) {
        if (!real) return;
        const u32 index = (u32)i;
        const u64 begin = request_word(requests, count, WEIGHTS_AT, index);
        const u64 end = begin + request_word(requests, count, ASKED, index);
        const DIST away = distance[request_word(requests, count, ROW, index)];
        first[i] = request_word(requests, count, NEIGHBORS_AT, index);
        weighs[i] = begin;
        at[i] = away;
        arcs[i] = first_above(weights, begin, end, away, max(bound, away), top) - begin;
    });
}

// Of all that was measured the first `end` arcs were gone along: rows move on. Those that have come to a candidate
// above the bound wait, and no longer want arcs; nor do those at their ends. `offsets` are of whole rows.
extern "C" __global__ void pass_fetched(FETCHED, u64 end, const u64* starts, const u64* weighs, const DIST* at,
                                        DIST top, const u64* offsets, u32* cursor, DIST* later, u32* waiting,
                                        u32* wanting) {
    over_lanes(count, [&](u64 i, bool real) {
        if (!real) return;
        const u32 row = request_word(requests, count, ROW, (u32)i), asked = request_word(requests, count, ASKED, (u32)i);
        const u64 arcs = starts[i + 1] - starts[i], passed = min(max(end, starts[i]) - starts[i], arcs);
        const u32 next = cursor[row] + (u32)passed;
        const bool waits = passed == arcs && arcs < asked;
        cursor[row] = next;
        flags[i] = passed == asked;
        if (waits) {
            later[row] = path_sum(at[i], (DIST)weights[weighs[i] + arcs], top);
            put(waiting, row);
        }
        if (waits || next == offsets[row + 1] - offsets[row]) atomicAnd(wanting + (row >> 5), ~bit_in_word(row));
    });
}

// Tells whether a neighbour is settled, or is not.
extern "C" __global__ void look_fetched(FETCHED, const u32* settled, u32 wanted, u64* counts) {
    over_requests(FETCHED_ARCS, [&](u32 index, u32, Arcs arcs) {
        for (u32 at = threadIdx.x % 32; at < arcs.count; at += 32)
            if (has(settled, arcs.neighbors[at]) == (wanted != 0)) counts[LISTED] = 1;
        set_flag(flags, index, true);
    });
}
