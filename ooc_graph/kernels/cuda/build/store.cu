// Tuples -> rows in store order, a range of rows at a time: what lies between two sorts.
//
// Rows are numbered in store order: shard by shard, and in a shard as they stand there. A key is
// row << 32 | neighbour, its row counted from the first of the range. A weight is a word whose order
// as an unsigned number is that of the weights. Sorting is left to the caller's library.
#include "grid.cuh"

#ifndef ID
#define ID u32
#endif
#ifndef GIVEN // what the tuples' weights are: float, double or i64
#define GIVEN float
#endif
#ifndef WORD // as wide as the weights that are stored
#define WORD u32
#endif

#define DEAL_BITS 10

// Adding zero makes minus zero plus zero: equal weights get equal words.
__device__ __forceinline__ u32 word_of(float weight) {
    const u32 bits = __float_as_uint(__fadd_rn(weight, 0.0f));
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ u64 word_of(double weight) {
    const u64 bits = (u64)__double_as_longlong(__dadd_rn(weight, 0.0));
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

// Of 32 bits where all weights fit them.
__device__ __forceinline__ WORD word_of(i64 weight) { return (WORD)weight ^ (WORD)1 << (8 * sizeof(WORD) - 1); }

__device__ __forceinline__ WORD bits_of(WORD word, u32 integral) {
    const WORD sign = (WORD)1 << (8 * sizeof(WORD) - 1);
    return integral || word & sign ? word ^ sign : ~word;
}

// Row in store order. starts[s]: rows of the shards before s; there are 1 << shift shards.
__device__ __forceinline__ u32 store_row(u32 vertex, u32 shift, const u32* starts) {
    const u32 block = vertex >> DEAL_BITS;
    return starts[block & ((1u << shift) - 1)] + (block >> shift << DEAL_BITS) + (vertex & ((1u << DEAL_BITS) - 1));
}

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

// Keys whose ascending order is that of falling degrees, ties by position.
extern "C" __global__ void degree_keys(u64 vertices, const u32* degree, u64* keys) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < vertices) keys[i] = (u64)~degree[i] << 32 | i;
}

// Position and tuples of each internal id, and the internal id of each position that has one.
extern "C" __global__ void number_vertices(u64 rows, const u64* keys, const u32* degree, u32* order, u32* internal_of,
                                           u32* tuples) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    const u32 position = (u32)keys[i];
    order[i] = position;
    internal_of[position] = (u32)i;
    tuples[i] = degree[position];
}

extern "C" __global__ void deal_tuples(u64 rows, u32 shift, const u32* starts, const u32* tuples, u32* dealt) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) dealt[store_row((u32)i, shift, starts)] = tuples[i];
}

// Internal id, or NONE: of a position, or of an original id that stands among `originals`, if any.
__device__ __forceinline__ u32 internal_id(u64 id, u64 vertices, const u32* internal_of, const u64* originals) {
    if (!originals) return id < vertices ? internal_of[id] : NONE;
    u64 low = 0, high = vertices;
    while (low < high) {
        const u64 middle = low + (high - low) / 2;
        if (originals[middle] < id) low = middle + 1;
        else high = middle;
    }
    return low < vertices && originals[low] == id ? internal_of[low] : NONE;
}

// Keys and weights, if any, of the arcs whose rows lie in [low, high), in any order. `ends`: 1 where
// an edge is an arc from its source, 2 from its target, 3 from both. totals[0]: arcs there are, of
// which the first `most` are written; totals[1]: edges of a vertex that was not counted before.
extern "C" __global__ void take_dealt(u64 edges, const ID* source, const ID* target, const GIVEN* weight, u64 vertices,
                                      const u32* internal_of, const u64* originals, u32 shift, const u32* starts,
                                      u32 ends, u32 low, u32 high, u64 most, u64* totals, u64* keys, WORD* words) {
    for (u64 first = (u64)blockIdx.x * blockDim.x; first < edges; first += (u64)gridDim.x * blockDim.x) {
        const u64 i = first + threadIdx.x;
        bool there = false, back = false;
        u32 a = 0, b = 0, from = 0, to = 0;
        if (i < edges && source[i] != target[i]) {
            a = internal_id(source[i], vertices, internal_of, originals);
            b = internal_id(target[i], vertices, internal_of, originals);
            if (a == NONE || b == NONE) atomicAdd(totals + 1, 1ull);
            else {
                from = store_row(a, shift, starts);
                to = store_row(b, shift, starts);
                there = ends & 1 && from >= low && from < high;
                back = ends & 2 && to >= low && to < high;
            }
        }
        const u32 mine = there + back;
        u64 at = take_places(totals, mine);
        const WORD word = words && mine ? word_of(weight[i]) : 0;
        if (there && at < most) {
            keys[at] = (u64)(from - low) << 32 | b;
            if (words) words[at] = word;
        }
        at += there;
        if (back && at < most) {
            keys[at] = (u64)(to - low) << 32 | a;
            if (words) words[at] = word;
        }
    }
}

// Of ascending keys, marks the first of each run of equals.
extern "C" __global__ void mark_runs(u64 count, const u64* keys, u8* mark) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) mark[i] = i == 0 || keys[i] != keys[i - 1];
}

// Where each of `rows` rows begins among the runs, and where the last one ends. runs[i]: runs up to
// and with i.
extern "C" __global__ void row_begins(u64 count, const u64* keys, const u32* runs, u64 rows, u64* offsets) {
    const u64 row = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row > rows) return;
    u64 low = 0, high = count;
    while (low < high) {
        const u64 middle = low + (high - low) / 2;
        if (keys[middle] >> 32 < row) low = middle + 1;
        else high = middle;
    }
    offsets[row] = low ? runs[low - 1] : 0;
}

// Each run's neighbour, and, if there are `words`, the lightest of its weights (`kept` must hold the
// largest word everywhere) and its row. `order`: which word
// belongs to key i.
extern "C" __global__ void keep_lightest(u64 count, const u64* keys, const u32* runs, const u64* order,
                                         const WORD* words, u32* neighbors, u32* kept_rows, WORD* kept) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const u32 at = runs[i] - 1;
    if (words) atomicMin(kept + at, words[order[i]]);
    if (i && keys[i - 1] == keys[i]) return;
    neighbors[at] = (u32)keys[i];
    if (words) kept_rows[at] = (u32)(keys[i] >> 32);
}

// row << 32 | word, for words of 32 bits.
extern "C" __global__ void light_keys(u64 count, const u32* rows, const WORD* kept, u64* light) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) light[i] = (u64)rows[i] << 32 | (u32)kept[i];
}

// Neighbours and weights in the order of light rows. `integral`: whether the weights are integers.
extern "C" __global__ void order_light(u64 count, const u64* order, const u32* neighbors, const WORD* kept, u32 integral,
                                       u32* reordered, WORD* weights) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    reordered[i] = neighbors[order[i]];
    weights[i] = bits_of(kept[order[i]], integral);
}
