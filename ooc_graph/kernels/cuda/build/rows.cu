// Edges on the device -> rows: counting, renaming, and what lies between two sorts.
//
// A key is row << 32 | neighbour, or row << 32 | weight. Sorting is left to the caller's library.
#include "grid.cuh"

#ifndef ID
#define ID u32
#endif

// Tuples at both ends of every edge that is no self-loop; totals[0]: self-loops, totals[1]: edges
// with an id that is not below `vertices`.
extern "C" __global__ void count_tuples(u64 edges, u64 vertices, const ID* source, const ID* target, u32* degree,
                                        u64* totals) {
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    u64 loops = 0, strange = 0;
    for (u64 i = thread; i < edges; i += threads) {
        const u64 u = source[i], v = target[i];
        if (u >= vertices || v >= vertices) strange++;
        else if (u == v) loops++;
        else {
            atomicAdd(degree + u, 1u);
            atomicAdd(degree + v, 1u);
        }
    }
    loops = warp_sum(loops);
    strange = warp_sum(strange);
    if (threadIdx.x % 32) return;
    if (loops) atomicAdd(totals, loops);
    if (strange) atomicAdd(totals + 1, strange);
}

// Internal ids of both ends; a self-loop becomes NONE at both. `counts`, if any: arcs that begin
// at each row.
extern "C" __global__ void rename_ends(u64 edges, const ID* source, const ID* target, const u32* internal_of, u32* from,
                                       u32* to, u32* counts) {
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread; i < edges; i += threads) {
        const u64 u = source[i], v = target[i];
        const u32 a = u == v ? NONE : internal_of[u], b = u == v ? NONE : internal_of[v];
        from[i] = a;
        to[i] = b;
        if (counts && u != v) atomicAdd(counts + a, 1u);
    }
}

// Keys of the arcs whose rows lie in [low, high), in any order, and their weights, if any. `both`:
// an edge is an arc from its either end.
extern "C" __global__ void take_arcs(u64 edges, const u32* from, const u32* to, const float* weight, u32 both, u32 low,
                                     u32 high, u64* taken, u64* keys, u32* weights) {
    for (u64 first = (u64)blockIdx.x * blockDim.x; first < edges; first += (u64)gridDim.x * blockDim.x) {
        const u64 i = first + threadIdx.x;
        const u32 a = i < edges ? from[i] : NONE, b = i < edges ? to[i] : NONE;
        const bool there = a >= low && a < high, back = both && b >= low && b < high; // NONE is above `high`
        const u32 mine = there + back;
        u64 at = take_places(taken, mine);
        // Adding zero makes minus zero plus zero: equal weights get equal bits.
        const u32 bits = weights && mine ? __float_as_uint(__fadd_rn(weight[i], 0.0f)) : 0;
        if (there) {
            keys[at] = (u64)a << 32 | b;
            if (weights) weights[at] = bits;
            at++;
        }
        if (back) {
            keys[at] = (u64)b << 32 | a;
            if (weights) weights[at] = bits;
        }
    }
}

// Of ascending keys, marks the first of each run of equals.
extern "C" __global__ void mark_first(u64 count, const u64* keys, u8* mark) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) mark[i] = i == 0 || keys[i] != keys[i - 1];
}

// Order that puts weights in the order of bits: negative ones first.
__device__ __forceinline__ u32 ordered(u32 bits) { return bits >> 31 ? ~bits : bits | 0x80000000u; }

// Writes each run's neighbour to its place, with the lightest weight of the run, and where rows
// [low, high) begin: offsets[0] is row `low`, counting from `base`. place[i]: runs up to and with i.
// `order`: which weight belongs to key i. `light`, if any: row << 32 | ordered weight.
extern "C" __global__ void keep_first(u64 count, const u64* keys, const u32* place, const u64* order, const u32* weights,
                                      u32 low, u32 high, u64 base, u32* neighbors, u64* light, u64* offsets) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i > count) return;
    const u64 key = i < count ? keys[i] : 0;
    const u32 row = i < count ? (u32)(key >> 32) : high;
    const u32 before = i ? (u32)(keys[i - 1] >> 32) + 1 : low;
    const u32 at = i < count ? place[i] - 1 : i ? place[i - 1] : 0;
    for (u32 r = before; r <= row && before <= row; r++) offsets[r - low] = base + at;
    if (i == count || (i && keys[i - 1] == key)) return;
    neighbors[at] = (u32)key;
    if (!light) return;
    u32 least = ordered(weights[order[i]]);
    for (u64 k = i + 1; k < count && keys[k] == key; k++) least = min(least, ordered(weights[order[k]]));
    light[at] = (u64)row << 32 | least;
}

// Neighbours and weights in the order that sorting row << 32 | ordered weight gave.
extern "C" __global__ void reorder(u64 count, const u64* light, const u64* order, const u32* neighbors, u32* reordered,
                                   u32* weights) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const u32 bits = (u32)light[order[i]];
    reordered[i] = neighbors[order[i]];
    weights[i] = bits >> 31 ? bits & 0x7FFFFFFFu : ~bits;
}
