// Which arcs no shortest path needs: those longer than a path over one of 32 landmarks, also as
// rounded sums from any source (`kernels/cpu/many/prune.py` has the reason); and rows without them.
//
// Lengths to and from landmarks are floats rounded up, so no sum is too small; weights that are
// compared with them are rounded down. They need not be shortest: any path will do.
//
// The host sets WEIGHT: float, double or i64.
#include "grid.cuh"

#define INFINITE 0x7F800000u
#define MARKS 32 // one a lane
#define AT_ONCE 8
// Arcs that one warp marks.
#define PIECE_ARCS 128u

// The landmarks' own arcs: rows 0 to MARKS of `length` (rows, MARKS), bits of floats, all infinite.
extern "C" __global__ void begin_landmarks(u32 marks, const u64* offsets, const u32* neighbors, const WEIGHT* weights,
                                           float error, u32* length) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 mark = 0; mark < marks; mark++) {
        if (thread == 0) atomicMin(length + (u64)mark * MARKS + mark, 0u);
        for (u64 arc = offsets[mark] + thread; arc < offsets[mark + 1]; arc += threads) {
            const float weight = __fadd_ru(rounded_up(weights[arc]), error);
            atomicMin(length + (u64)neighbors[arc] * MARKS + mark, __float_as_uint(weight));
        }
    }
}

// One pass over the rows of arcs that come from (or lead to) where lengths are known already. Each
// row is written by one warp, while others read it: they see a length of some path or another.
// Of a row `enough` arcs are looked at, where all landmarks have reached it or `is_hasty`.
// `count`: rows that a landmark reached for the first time.
extern "C" __global__ void pull_landmarks(u32 rows, u32 is_sorted, u32 enough, u32 is_hasty, const u64* offsets, const u32* neighbors,
                                          const WEIGHT* weights, float error, u32* length, u64* count) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    u32 reached = 0;
    for (u32 row = warp; row < rows; row += warps) {
        const u64 begin = __ldg(offsets + row), end = __ldg(offsets + row + 1);
        const u32 old = __ldcg(length + (u64)row * MARKS + lane);
        u32 best = old, most = __reduce_max_sync(FULL, best);
        for (u64 at = begin; at < end; at += AT_ONCE) {
            if ((is_hasty || most != INFINITE) && at - begin >= enough) break;
            u32 neighbor = 0;
            float weight = __uint_as_float(INFINITE), lowest = weight;
            if (lane < AT_ONCE && at + lane < end) {
                neighbor = __ldg(neighbors + at + lane);
                weight = __fadd_ru(rounded_up(__ldg(weights + at + lane)), error);
                lowest = rounded_down(__ldg(weights + at + lane));
            }
            if (is_sorted && __float_as_uint(__shfl_sync(FULL, lowest, 0)) >= most) break;
            u32 from[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                from[k] = __ldcg(length + (u64)__shfl_sync(FULL, neighbor, k) * MARKS + lane);
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const float sum = __fadd_ru(__uint_as_float(from[k]), __shfl_sync(FULL, weight, k));
                best = min(best, __float_as_uint(sum));
            }
            most = __reduce_max_sync(FULL, best);
        }
        if (best < old) length[(u64)row * MARKS + lane] = best;
        reached += __ballot_sync(FULL, best < old && old == INFINITE) != 0;
    }
    if (lane == 0 && reached) atomicAdd(count, (u64)reached);
}

// The longest finite length of each landmark; `most` is 0 before.
extern "C" __global__ void find_farthest(u32 rows, const u32* length, u32* most) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    u32 mine = 0;
    for (u32 row = warp; row < rows; row += warps) {
        const u32 found = __ldg(length + (u64)row * MARKS + threadIdx.x % 32);
        if (found != INFINITE) mine = max(mine, found);
    }
    if (mine) atomicMax(most + threadIdx.x % 32, mine);
}

// Last row whose arcs begin at `arc` or before.
__device__ __forceinline__ u32 row_of(const u64* offsets, u32 rows, u64 arc) {
    u32 low = 0, high = rows;
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (__ldg(offsets + middle) <= arc) low = middle;
        else high = middle;
    }
    return low;
}

// needed[arc] for rows v of arcs that come from neighbours u: whether no landmark h gives a path
// u .. h .. v that is shorter. Whoever reaches u reaches v over h, by a sum that the span bounds.
extern "C" __global__ void mark_needed(u32 rows, u64 arcs, const u64* offsets, const u32* neighbors, const WEIGHT* weights,
                                       const u32* to, const u32* away, u8* needed) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    for (u64 first = (u64)warp * PIECE_ARCS; first < arcs; first += (u64)warps * PIECE_ARCS) {
        u32 row = row_of(offsets, rows, first);
        u64 end = __ldg(offsets + row + 1);
        const u64 stop = min(first + PIECE_ARCS, arcs);
        float there = __uint_as_float(__ldg(away + (u64)row * MARKS + lane));
        for (u64 base = first; base < stop; base += 32) {
            u32 neighbor = 0, bits = 0;
            float weight = 0;
            if (base + lane < stop) {
                neighbor = __ldg(neighbors + base + lane);
                weight = rounded_down(__ldg(weights + base + lane));
            }
            for (u32 part = 0; part < 32; part += AT_ONCE) {
                u32 from[AT_ONCE];
#pragma unroll
                for (int k = 0; k < AT_ONCE; k++) {
                    const u64 at = (u64)__shfl_sync(FULL, neighbor, part + k) * MARKS + lane;
                    from[k] = __ldg(to + at);
                }
#pragma unroll
                for (int k = 0; k < AT_ONCE; k++) {
                    if (base + part + k >= stop) break;
                    while (base + part + k >= end) {
                        end = __ldg(offsets + ++row + 1);
                        there = __uint_as_float(__ldg(away + (u64)row * MARKS + lane));
                    }
                    const float over = __fadd_ru(there, __uint_as_float(from[k]));
                    const bool is_shorter = __shfl_sync(FULL, weight, part + k) > over;
                    if (!__ballot_sync(FULL, is_shorter)) bits |= 1u << (part + k);
                }
            }
            if (base + lane < stop) needed[base + lane] = bits >> lane & 1;
        }
    }
}

// Arcs that are needed, behind each other; `kept` counts them up to and with each arc.
extern "C" __global__ void keep_needed(u64 arcs, const u8* needed, const u64* kept, const u32* neighbors,
                                       const WEIGHT* weights, u32* neighbors_out, WEIGHT* weights_out) {
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 arc = (u64)blockIdx.x * blockDim.x + threadIdx.x; arc < arcs; arc += threads) {
        if (!needed[arc]) continue;
        neighbors_out[kept[arc] - 1] = neighbors[arc];
        weights_out[kept[arc] - 1] = weights[arc];
    }
}

// The row of each arc.
extern "C" __global__ void name_rows(u32 rows, const u64* offsets, u32* row_of_arc) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    for (u32 row = warp; row < rows; row += warps)
        for (u64 arc = offsets[row] + threadIdx.x % 32; arc < offsets[row + 1]; arc += 32) row_of_arc[arc] = row;
}
