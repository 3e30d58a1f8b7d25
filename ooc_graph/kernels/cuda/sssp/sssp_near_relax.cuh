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

// Lists the pieces of a row behind its first; returns the arcs left to the caller: more where the
// list is full. All lanes of a warp call it, those of a group for the same row.
template <bool ALONE>
__device__ __forceinline__ u32 hand_out(const Graph& g, const Wave& wave, Entry entry, u32 arcs) {
    const u32 lane = threadIdx.x % 32, lanes = 1u << g.lane_bits, k = lane & (lanes - 1);
    const u32 others = arcs > PIECE_ARCS ? (arcs - 1) / PIECE_ARCS : 0;
    u32 position = 0;
    if (k == 0 && others) position = atomicAdd(wave.next_count, others);
    position = __shfl_sync(FULL, position, lane - k);
    const u32 fit = position < wave.next_capacity ? min(others, wave.next_capacity - position) : 0;
    const u32 first = others - fit + 1;
    for (u32 i = k; i < fit; i += lanes) put_near<ALONE>(wave, position + i, pack(entry.length, entry.row, first + i));
    return fit ? first * PIECE_ARCS : arcs;
}

// Relaxes N arcs of each lane, to NONE where it has fewer. All lanes of a warp call it.
template <bool ALONE, int N>
__device__ __forceinline__ void improve(const Search& s, const Wave& wave, Length from, const u32 (&to)[N],
                                        const Weight (&weight)[N], Tally& tally) {
    Length candidate[N], before[N];
    bool near[N], far[N];
#pragma unroll
    for (int n = 0; n < N; n++) {
        candidate[n] = sum_of(from, weight[n]);
        before[n] = 0;
        tally.examined += to[n] != NONE;
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
    }
    u32 near_position[N], far_position[N];
    reserve(near, wave.next_count, near_position, far, wave.far_count, far_position);
#pragma unroll
    for (int n = 0; n < N; n++) {
        if (near[n]) put_near<ALONE>(wave, near_position[n], pack(candidate[n], to[n], 0));
        if (far[n]) put_far(wave, far_position[n], pack(candidate[n], to[n], 0));
    }
}

// Relaxes what stands at an entry's fixed positions; tells whether its row has more arcs. `now` is the
// row's length.
template <bool ALONE>
__device__ __forceinline__ bool relax_fixed(const Graph& g, const Search& s, const Wave& wave, Entry entry, Length now,
                                            Tally& tally) {
    u32 to[4] = {NONE, NONE, NONE, NONE};
    Weight weight[4] = {0, 0, 0, 0};
    if (entry.row != NONE && entry.piece == 0) {
        const uint4 neighbors = __ldg(g.fixed_neighbors + entry.row);
        if constexpr (sizeof(Weight) == 4) {
            const uint4 four = __ldg((const uint4*)g.fixed_weights + entry.row);
            weight[0] = four.x, weight[1] = four.y, weight[2] = four.z, weight[3] = four.w;
        } else {
            const ulonglong2* const words = (const ulonglong2*)g.fixed_weights + 2 * (u64)entry.row;
            const ulonglong2 one = __ldg(words), two = __ldg(words + 1);
            weight[0] = (Weight)one.x, weight[1] = (Weight)one.y, weight[2] = (Weight)two.x, weight[3] = (Weight)two.y;
        }
        if (now == entry.length) {
            to[0] = neighbors.x, to[1] = neighbors.y, to[2] = neighbors.z, to[3] = neighbors.w;
            s.done[entry.row] = now;
        }
    }
    const bool more = to[2] != NONE && to[2] == to[3];
    if (more) to[3] = NONE;
    improve<ALONE>(s, wave, entry.length, to, weight, tally);
    return more || (entry.piece && now == entry.length);
}

// One round: relaxes the arcs of all entries. A few lanes share a row, and have N of its arcs each at a
// time; one lane where rows have fixed places.
template <bool ALONE, int N>
__device__ __forceinline__ void relax_round(const Graph& g, const Search& s, const Wave& wave, Tally& tally) {
    const u32 lane = threadIdx.x % 32, lanes = 1u << g.lane_bits, k = lane & (lanes - 1), per_warp = 32 >> g.lane_bits;
    for (u32 first = warp_number<ALONE>() * per_warp; first < wave.count; first += warp_count<ALONE>() * per_warp) {
        const u32 i = first + (lane >> g.lane_bits);
        Entry entry = {0, NONE, 0};
        Length now = UNREACHED;
        if (i < wave.count) {
            entry = unpack(ALONE ? wave.now[i] : __ldcg(wave.now + i));
            now = length_of<ALONE>(s.length, entry.row);
        }
        bool rest = entry.row != NONE;
        if (FIXED) {
            rest = relax_fixed<ALONE>(g, s, wave, entry, now, tally);
            if (!__any_sync(FULL, rest)) continue;
        }
        u64 base = 0;
        u32 left = 0;
        if (rest) {
            base = __ldg(g.out_offsets + entry.row);
            const u64 end = __ldg(g.out_offsets + entry.row + 1);
            if (now == entry.length) left = (u32)(end - base);
            if (entry.piece) {
                base += (u64)entry.piece * PIECE_ARCS;
                left = left ? (u32)min((u64)PIECE_ARCS, end - base) : 0;
            } else if (now == entry.length && k == 0) {
                s.done[entry.row] = now; // without arcs, too
            }
        }
        if (__any_sync(FULL, left > PIECE_ARCS)) left = hand_out<ALONE>(g, wave, entry, left);
        if (FIXED && !entry.piece) {
            base += 3;
            left -= min(left, 3);
        }
        const u32* neighbors = g.out_neighbors + base + k;
        const Weight* weights = g.out_weights + base + k;
        do {
            u32 to[N];
            Weight weight[N];
#pragma unroll
            for (int n = 0; n < N; n++) {
                to[n] = NONE;
                weight[n] = 0;
                if (n * lanes + k >= left) continue;
                to[n] = __ldg(neighbors + n * lanes);
                weight[n] = __ldg(weights + n * lanes);
            }
            improve<ALONE>(s, wave, entry.length, to, weight, tally);
            neighbors += N * lanes;
            weights += N * lanes;
            left -= min(left, N * lanes);
        } while (__any_sync(FULL, left));
    }
}

// An entry beyond the bound, if it still is what the row has.
template <bool ALONE>
struct FromList {
    const uint4* list;
    Length* length;
    u32 count;
    __device__ __forceinline__ Entry at(u32 i) const {
        Entry entry = unpack(__ldcg(list + i));
        if (length_of<ALONE>(length, entry.row) != entry.length) entry.length = UNREACHED;
        return entry;
    }
};

// Any row that has come nearer since its arcs were relaxed: for when lists were full.
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
        u32 near_position[1], far_position[1];
        reserve(near, wave.next_count, near_position, far, wave.far_count, far_position);
        if (near[0]) put_near<ALONE>(wave, near_position[0], pack(entry.length, entry.row, 0));
        if (far[0]) put_far(wave, far_position[0], pack(entry.length, entry.row, 0));
    }
}
