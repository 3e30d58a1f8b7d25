// What near-far searches, what it keeps, and the lists that its rounds fill.
#pragma once
#include "sssp_sums.cuh"

// The host sets BLOCK; FRONT: entries of a round that one block does alone, from shared memory; and ARCS:
// arcs of a row that a lane has in flight.

// Entries beyond the bound that this block also sorts out alone.
#ifndef FRONT_FAR
#define FRONT_FAR 16384u
#endif
// Arcs of a row that are relaxed at a time; the others are entries of their own.
#ifndef PIECE_ARCS
#define PIECE_ARCS 512u
#endif

// Whether rows have fixed places: most are short.
#ifndef FIXED
#define FIXED 0
#endif

// Whether the block that is alone has room for all lengths in shared memory.
#ifndef SMALL
#define SMALL 0
#endif

struct Graph {
    u32 rows;
    const u64* out_offsets;
    const u32* out_neighbors;
    const Weight* out_weights;
    const u64* in_offsets;
    const u32* in_neighbors;
    const Weight* in_weights;
    const uint4* fixed_neighbors; // a row's four arcs, NONE where there are fewer; of more than
    const Weight* fixed_weights;  // four the first three, and the third neighbour again
    u32 giants, hubs; // rows below are looked at by a block, by a warp each
    u32 lane_bits;    // 2 to the power of it, 32 at most: lanes that relax a row together
    const u32* original_of; // null: parents are given as internal ids
};

// A row to relax, or a piece of it, with the length it had when it was listed. Nothing is to be
// done if it is shorter by now: then it was listed again.
struct Entry {
    Length length;
    u32 row, piece;
};

__device__ __forceinline__ uint4 pack(Length length, u32 row, u32 piece) {
    return make_uint4((u32)length, (u32)((u64)length >> 32), row, piece);
}

__device__ __forceinline__ Entry unpack(uint4 packed) {
    return {(Length)((u64)packed.y << 32 | packed.x), packed.z, packed.w};
}

struct Search {
    Length* length;
    Length* done; // length with which a row's arcs were relaxed, or listed in pieces
    u32* parent;
    u32* marks;   // rows on plateaus
    u32* flat;    // list of them, in the memory of `near`
    uint4* near[2];
    uint4* far[2];
    u32 near_capacity, far_capacity;
};

// A row's length while others may improve it. In shared memory a plain load would race with them.
template <bool ALONE>
__device__ __forceinline__ Length length_of(Length* lengths, u32 row) {
    if (ALONE && SMALL) return atomicCAS(lengths + row, (Length)0, (Length)0);
    return __ldcg(lengths + row);
}

// What a round reads and fills. Counts continue beyond the capacity; who finds none left says so.
struct Wave {
    const uint4* now;
    u32 count;
    Length bound;
    uint4* front; // the first `FRONT` of the next round, if one block is alone
    uint4* next;
    u32* next_count;
    u32 next_capacity;
    uint4* far;
    u32* far_count;
    u32 far_base, far_capacity;
    u32* dropped;
};

struct Tally {
    u32 examined, again; // arcs; rows improved that had been within the bound
};

// Positions in two lists for what the lanes have; all lanes of a warp call it.
template <int N>
__device__ __forceinline__ void reserve(const bool (&near)[N], u32* near_count, u32 (&near_position)[N],
                                        const bool (&far)[N], u32* far_count, u32 (&far_position)[N]) {
    const u32 lane = threadIdx.x % 32, before = (1u << lane) - 1;
    u32 nears = 0, fars = 0;
#pragma unroll
    for (int n = 0; n < N; n++) {
        const u32 to_near = __ballot_sync(FULL, near[n]), to_far = __ballot_sync(FULL, far[n]);
        near_position[n] = nears + __popc(to_near & before);
        far_position[n] = fars + __popc(to_far & before);
        nears += __popc(to_near);
        fars += __popc(to_far);
    }
    // Both at once, by two lanes.
    u32 base = 0;
    const u32 wanted = lane == 0 ? nears : fars;
    if (lane < 2 && wanted) base = atomicAdd(lane == 0 ? near_count : far_count, wanted);
    const u32 near_base = __shfl_sync(FULL, base, 0), far_base = __shfl_sync(FULL, base, 1);
#pragma unroll
    for (int n = 0; n < N; n++) {
        near_position[n] += near_base;
        far_position[n] += far_base;
    }
}

template <bool ALONE>
__device__ __forceinline__ void put_near(const Wave& wave, u32 position, uint4 entry) {
    if (ALONE && position < FRONT) wave.front[position] = entry;
    else if (position < wave.next_capacity) wave.next[position] = entry;
    else atomicMax(wave.dropped, 1u);
}

__device__ __forceinline__ void put_far(const Wave& wave, u32 position, uint4 entry) {
    if (wave.far_base + position < wave.far_capacity) wave.far[wave.far_base + position] = entry;
    else atomicMax(wave.dropped, 1u);
}
