// Near-far: the rounds, by one block or by the grid.
#pragma once
#include "sssp_near_graph.cuh"

// Warps of the block that is alone, or of the grid.
template <bool ALONE>
__device__ __forceinline__ u32 warp_number() {
    return ((ALONE ? 0 : blockIdx.x * blockDim.x) + threadIdx.x) / 32;
}

template <bool ALONE>
__device__ __forceinline__ u32 warp_count() {
    return (ALONE ? 1 : gridDim.x) * blockDim.x / 32;
}

// Lists the stretches of a row behind its first; returns the arcs left to the caller: more where the
// list has no room. All lanes of a warp call it, those of a group for the same row.
template <bool ALONE>
__device__ __forceinline__ u32 hand_out(const Graph& g, const Wave& wave, Entry entry, u32 arcs) {
    const u32 lane = threadIdx.x % 32, lanes = 1u << g.lane_bits, k = lane & (lanes - 1);
    const u32 others = arcs > STRETCH ? (arcs - 1) / STRETCH : 0;
    u32 place = 0;
    if (k == 0 && others) place = atomicAdd(wave.next_count, others);
    place = __shfl_sync(FULL, place, lane - k);
    const u32 fit = place < wave.next_room ? min(others, wave.next_room - place) : 0;
    const u32 first = others - fit + 1;
    for (u32 i = k; i < fit; i += lanes) put_near<ALONE>(wave, place + i, pack(entry.length, entry.row, first + i));
    return fit ? first * STRETCH : arcs;
}

// One round: relaxes the arcs of all entries. A few lanes share a row, and have N rows at a time.
template <bool ALONE, int N>
__device__ __forceinline__ void relax_round(const Graph& g, const Search& s, const Wave& wave, Tally& tally) {
    const u32 lane = threadIdx.x % 32, lanes = 1u << g.lane_bits, k = lane & (lanes - 1), per_warp = 32 >> g.lane_bits;
    const u32 stride = warp_count<ALONE>() * per_warp;
    for (u32 first = warp_number<ALONE>() * per_warp; first < wave.count; first += N * stride) {
        Entry entry[N];
        u64 base[N], end[N];
        u32 left[N];
#pragma unroll
        for (int n = 0; n < N; n++) {
            const u32 i = first + n * stride + (lane >> g.lane_bits);
            entry[n] = {0, NONE, 0};
            if (i < wave.count) entry[n] = unpack(ALONE ? wave.now[i] : __ldcg(wave.now + i));
        }
        bool is_long = false;
#pragma unroll
        for (int n = 0; n < N; n++) {
            base[n] = end[n] = 0;
            if (entry[n].row == NONE) continue;
            const Length now = __ldcg(s.length + entry[n].row);
            base[n] = __ldg(g.out_offsets + entry[n].row);
            end[n] = __ldg(g.out_offsets + entry[n].row + 1);
            if (now != entry[n].length) end[n] = base[n];
        }
#pragma unroll
        for (int n = 0; n < N; n++) {
            if (end[n] > base[n] && entry[n].stretch == 0 && k == 0) s.done[entry[n].row] = entry[n].length;
            left[n] = (u32)(end[n] - base[n]);
            if (left[n] > STRETCH && entry[n].stretch) {
                base[n] += (u64)entry[n].stretch * STRETCH;
                left[n] = (u32)min((u64)STRETCH, end[n] - base[n]);
            }
            is_long |= left[n] > STRETCH;
        }
        if (__any_sync(FULL, is_long))
#pragma unroll
            for (int n = 0; n < N; n++) left[n] = hand_out<ALONE>(g, wave, entry[n], left[n]);
        for (;;) {
            u32 to[N];
            Length candidate[N], before[N];
            bool near[N], far[N], more = false;
#pragma unroll
            for (int n = 0; n < N; n++) {
                to[n] = NONE;
                candidate[n] = UNREACHED;
                if (k >= left[n]) continue;
                to[n] = __ldg(g.out_neighbors + base[n] + k);
                candidate[n] = sum_of(entry[n].length, __ldg(g.out_weights + base[n] + k));
                tally.examined++;
            }
#pragma unroll
            for (int n = 0; n < N; n++) {
                before[n] = 0;
                // Alone, one look less is quicker; in the grid, atomics are what is scarce.
                if (to[n] != NONE && (ALONE || __ldcg(s.length + to[n]) > candidate[n]))
                    before[n] = atomicMin(s.length + to[n], candidate[n]);
            }
#pragma unroll
            for (int n = 0; n < N; n++) {
                const bool better = before[n] > candidate[n];
                near[n] = better && candidate[n] <= wave.bound;
                far[n] = better && !near[n];
                tally.again += better && before[n] <= wave.bound;
                base[n] += lanes;
                left[n] -= min(left[n], lanes);
                more |= left[n] != 0;
            }
            u32 place[N];
            reserve(near, wave.next_count, place);
#pragma unroll
            for (int n = 0; n < N; n++)
                if (near[n]) put_near<ALONE>(wave, place[n], pack(candidate[n], to[n], 0));
            reserve(far, wave.far_count, place);
#pragma unroll
            for (int n = 0; n < N; n++)
                if (far[n]) put_far(wave, place[n], pack(candidate[n], to[n], 0));
            if (!__any_sync(FULL, more)) break;
        }
    }
}

// An entry beyond the bound, if it still is what the row has.
struct FromList {
    const uint4* list;
    const Length* length;
    u32 count;
    __device__ __forceinline__ Entry at(u32 i) const {
        Entry entry = unpack(__ldcg(list + i));
        if (__ldcg(length + entry.row) != entry.length) entry.length = UNREACHED;
        return entry;
    }
};

// Any row that has come nearer since its arcs were relaxed: for when lists had no room.
struct FromRows {
    const Length* length;
    const Length* done;
    u32 count;
    __device__ __forceinline__ Entry at(u32 v) const {
        const Length now = __ldcg(length + v);
        return {now < __ldcg(done + v) ? now : UNREACHED, v, 0};
    }
};

// Smallest length that this thread sees among those that wait.
template <bool ALONE, typename Source>
__device__ __forceinline__ Length smallest_waiting(const Source& source) {
    Length least = UNREACHED;
    for (u32 i = warp_number<ALONE>() * 32 + threadIdx.x % 32; i < source.count; i += warp_count<ALONE>() * 32)
        least = min(least, source.at(i).length);
    return least;
}

// Those within the bound are near now, the others stay beyond.
template <bool ALONE, typename Source>
__device__ __forceinline__ void sort_out(const Source& source, const Wave& wave) {
    const u32 lane = threadIdx.x % 32;
    for (u32 first = warp_number<ALONE>() * 32; first < source.count; first += warp_count<ALONE>() * 32) {
        Entry entry = {UNREACHED, 0, 0};
        if (first + lane < source.count) entry = source.at(first + lane);
        const bool near[1] = {entry.length <= wave.bound}, far[1] = {!near[0] && entry.length < UNREACHED};
        u32 place[1];
        reserve(near, wave.next_count, place);
        if (near[0]) put_near<ALONE>(wave, place[0], pack(entry.length, entry.row, 0));
        reserve(far, wave.far_count, place);
        if (far[0]) put_far(wave, place[0], pack(entry.length, entry.row, 0));
    }
}
