// What becomes of a batch: distances as rows of the answer, or reductions of them.
#pragma once
#include "many_search.cuh"

// Bytes of a source that a thread writes at once.
#define STORED (32 / sizeof(Length))
// Columns that one warp reduces.
#define REDUCED 128u

// What is asked for: column c holds the distance of row[c] and add[c]; NONE: never reached.
struct Columns {
    u32 count;
    const u32* row;
    const Length* add;
    const Length* potential;
    Length most;
};

// Distance of a column for each of the warp's sources, as it is asked for. `own` are their columns.
__device__ __forceinline__ Lane distance_of(const Lane* distance, u32 row, Length add, Length at_column, u32 column,
                                            const Columns& c, const u32 (&own)[VEC], const Lane& at_source) {
    Lane found = row == NONE ? lane_of(TOP) : load_lane(distance + (u64)row * 32 + threadIdx.x % 32);
#pragma unroll
    for (int k = 0; k < VEC; k++) {
        Length at = found.at[k];
        if (at < TOP) {
            at += add;
            if (c.potential) at = (at - at_source.at[k]) + at_column;
            if (at > c.most) at = FAR;
        } else {
            at = FAR;
        }
        found.at[k] = own[k] == column ? 0 : at;
    }
    return found;
}

struct Mine {
    u32 own[VEC];
    Lane potential;
};

__device__ __forceinline__ Mine sources_of_lane(const Sources& s, u32 first) {
    Mine mine;
#pragma unroll
    for (int k = 0; k < VEC; k++) {
        const u32 source = first + threadIdx.x % 32 * VEC + k;
        mine.own[k] = source < s.count ? s.own[source] : NONE;
        mine.potential.at[k] = s.potential && source < s.count ? s.potential[source] : 0;
    }
    return mine;
}

// Writes the batch as rows of `out`, one a source.
__device__ __forceinline__ void publish(const BlockGroup& group, const Columns& c, const Sources& s, u32 first, const Lane* distance,
                                        Length* out, u64 pitch) {
    const u32 lane = threadIdx.x % 32;
    const Mine mine = sources_of_lane(s, first);
    for (u32 base = group.warp * STORED; base < c.count; base += group.warps * STORED) {
        u32 row = NONE;
        Length add = 0, potential = 0;
        if (lane < STORED && base + lane < c.count) {
            row = __ldg(c.row + base + lane);
            add = __ldg(c.add + base + lane);
            if (c.potential) potential = __ldg(c.potential + base + lane);
        }
        Lane found[STORED];
#pragma unroll
        for (int k = 0; k < STORED; k++)
            found[k] = distance_of(distance, __shfl_sync(FULL, row, k), __shfl_sync(FULL, add, k),
                                   __shfl_sync(FULL, potential, k), base + k, c, mine.own, mine.potential);
#pragma unroll
        for (int j = 0; j < VEC; j++) {
            const u32 source = first + lane * VEC + j;
            if (source >= s.count) continue;
            union {
                Length length[STORED];
                uint4 quad[2];
            } stored;
#pragma unroll
            for (int k = 0; k < STORED; k++) stored.length[k] = found[k].at[j];
            uint4* to = (uint4*)(out + source * pitch + base);
            to[0] = stored.quad[0];
            to[1] = stored.quad[1];
        }
    }
}

// Of one source: how many columns are reached, the largest of their distances, and the sum.
struct Part {
    u64 reached;
    Length largest;
    double sum;
#if KIND == 2
    long long exact;
#endif
};

__device__ __forceinline__ void join(Part& part, const Part& other) {
    if (other.reached && (!part.reached || other.largest > part.largest)) part.largest = other.largest;
    part.reached += other.reached;
    part.sum += other.sum;
#if KIND == 2
    part.exact += other.exact;
#endif
}

// Reduces columns by pieces of a fixed length; `parts` holds SLOTS parts for every piece.
__device__ __forceinline__ void reduce_pieces(const BlockGroup& group, const Columns& c, const Sources& s, u32 first,
                                                 const Lane* distance, Part* parts) {
    const u32 lane = threadIdx.x % 32, pieces = (c.count + REDUCED - 1) / REDUCED;
    const Mine mine = sources_of_lane(s, first);
    for (u32 piece = group.warp; piece < pieces; piece += group.warps) {
        Part part[VEC] = {};
        const u32 end = min(c.count, (piece + 1) * REDUCED);
        for (u32 base = piece * REDUCED; base < end; base += 32) {
            u32 row = NONE;
            Length add = 0, potential = 0;
            if (base + lane < end) {
                row = __ldg(c.row + base + lane);
                add = __ldg(c.add + base + lane);
                if (c.potential) potential = __ldg(c.potential + base + lane);
            }
#pragma unroll 4
            for (u32 k = 0; k < 32; k++) {
                const Lane found = distance_of(distance, __shfl_sync(FULL, row, k), __shfl_sync(FULL, add, k),
                                               __shfl_sync(FULL, potential, k), base + k, c, mine.own, mine.potential);
#pragma unroll
                for (int j = 0; j < VEC; j++) {
                    if (!(found.at[j] < FAR)) continue;
                    if (!part[j].reached || found.at[j] > part[j].largest) part[j].largest = found.at[j];
                    part[j].reached++;
                    part[j].sum += (double)found.at[j];
#if KIND == 2
                    part[j].exact += found.at[j];
#endif
                }
            }
        }
#pragma unroll
        for (int j = 0; j < VEC; j++) parts[(u64)piece * SLOTS + lane * VEC + j] = part[j];
    }
}

// Joins the pieces, always in the same order: by the warps of one block, and then by the first.
__device__ __forceinline__ void join_pieces(const BlockGroup& group, const Columns& c, const Sources& s, u32 first, Part* parts,
                                               Part* out) {
    if (group.block) return;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = BLOCK / 32;
    const u32 pieces = (c.count + REDUCED - 1) / REDUCED, share = (pieces + warps - 1) / warps;
    for (u32 turn = 0; turn < 2; turn++) {
        const u32 begin = turn ? 0 : warp * share, end = turn ? pieces : min(begin + share, pieces);
        if (begin < end && (!turn || warp == 0)) {
            for (u32 k = lane; k < SLOTS; k += 32) {
                Part part = parts[(u64)begin * SLOTS + k];
#pragma unroll 4
                for (u32 at = begin + (turn ? share : 1); at < end; at += turn ? share : 1)
                    join(part, parts[(u64)at * SLOTS + k]);
                if (!turn) parts[(u64)begin * SLOTS + k] = part;
                else if (first + k < s.count) out[first + k] = part;
            }
        }
        __syncthreads();
    }
}

// Tells what a batch found: rows of the answer, or reductions of them.
__device__ __forceinline__ void tell(BlockGroup& group, const Columns& c, const Sources& s, u32 first,
                                     const Lane* distance, bool reduces, Part* parts, u8* out, u64 pitch) {
    if (reduces) {
        reduce_pieces(group, c, s, first, distance, parts);
        wait(group);
        join_pieces(group, c, s, first, parts, (Part*)out);
    } else {
        publish(group, c, s, first, distance, (Length*)out, pitch);
    }
    wait(group);
}
