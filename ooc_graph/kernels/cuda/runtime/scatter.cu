// An answer by internal id into the order of original ids, a block of IDS original ids at a time.
//
// Rows of one degree are numbered by original id, so that those of a block lie in runs. They are read
// in their own order, whole sectors of memory, change order in shared memory and leave it in order:
// nothing is read or written at random in device memory. ID is the type of internal ids in their table,
// or of tuples, MEASURE that of levels or distances, NAME that of the parents' original ids; PARENT
// and FOUND are those of the columns that are written.
#include "grid.cuh"

#ifndef IDS
#define IDS 8192u // as scatter.py has it
#endif
#define AT_ONCE 4 // rows that a thread reads at a time
#ifndef ID
#define ID u32
#endif
#ifndef MEASURE
#define MEASURE u8
#endif
#ifndef NAME
#define NAME u32
#endif
#ifndef PARENT
#define PARENT u32
#endif
#ifndef FOUND
#define FOUND MEASURE
#endif

// How many vertices of each block have a row; the table has all ones for the others.
extern "C" __global__ void count_rows(u64 vertices, const ID* internal_of, u64* counts) {
    for (u64 block = blockIdx.x; block * IDS < vertices; block += gridDim.x) {
        u32 count = 0;
        for (u32 i = threadIdx.x; i < IDS; i += blockDim.x) {
            const u64 v = block * IDS + i;
            count += __syncthreads_count(v < vertices && internal_of[v] != (ID)-1);
        }
        if (threadIdx.x == 0) counts[block] = count;
    }
}

// The rows of each block, ascending, and which of the block's vertices each one is; both are entered
// from the block's `starts` on.
extern "C" __global__ void sort_rows(u64 vertices, const ID* internal_of, const u64* starts, u32* row, u16* within) {
    extern __shared__ u64 keys[];
    for (u64 block = blockIdx.x; block * IDS < vertices; block += gridDim.x) {
        for (u32 i = threadIdx.x; i < IDS; i += blockDim.x) {
            const u64 v = block * IDS + i;
            const u32 found = v < vertices ? (u32)internal_of[v] : NONE;
            keys[i] = found == NONE ? ~0ull : (u64)found << 16 | i;
        }
        for (u32 size = 2; size <= IDS; size <<= 1)
            for (u32 step = size / 2; step; step >>= 1) {
                __syncthreads();
                for (u32 k = threadIdx.x; k < IDS / 2; k += blockDim.x) {
                    const u32 low = 2 * k - (k & (step - 1)), high = low + step;
                    const u64 a = keys[low], b = keys[high];
                    if ((a > b) != ((low & size) != 0)) {
                        keys[low] = b;
                        keys[high] = a;
                    }
                }
            }
        __syncthreads();
        const u64 first = starts[block];
        const u32 count = (u32)(starts[block + 1] - first);
        for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
            row[first + i] = (u32)(keys[i] >> 16);
            within[first + i] = (u16)keys[i];
        }
        __syncthreads(); // before the next block's keys are entered
    }
}

// Four vertices of a column, at an address that is a multiple of 16 bytes, of 4 if they are bytes.
template <typename Value> struct __align__(sizeof(Value) == 1 ? 4 : 16) Four {
    Value of[4];

    // To device memory, in whole words of 16 bytes; they are not read again soon.
    __device__ __forceinline__ void leave(Value* at) const {
        const u32* words = (const u32*)of;
        if constexpr (sizeof(Value) == 1) __stcs((u32*)at, words[0]);
        else {
#pragma unroll
            for (u32 k = 0; k < sizeof(Value) / 4; k++, words += 4)
                __stcs((uint4*)at + k, make_uint4(words[0], words[1], words[2], words[3]));
        }
    }
};

__device__ __forceinline__ PARENT named(u32 parent, const NAME* names) {
    if (parent == NONE) return (PARENT)-1;
    return names ? (PARENT)__ldg(names + parent) : (PARENT)parent;
}

// Levels of a byte that become longer have -1 for what is not reached.
__device__ __forceinline__ FOUND converted(MEASURE measure, MEASURE unreached) {
    return sizeof(FOUND) > sizeof(MEASURE) && measure == unreached ? (FOUND)-1 : (FOUND)measure;
}

template <typename Value> __device__ __forceinline__ void fill(Value* values, Value value) {
    Four<Value> four;
#pragma unroll
    for (u32 k = 0; k < 4; k++) four.of[k] = value;
    for (u32 i = threadIdx.x; i < IDS / 4; i += blockDim.x) ((Four<Value>*)values)[i] = four;
}

// `count` values of a block in shared memory to their column, four at a time.
template <typename Out, typename Value, typename Change>
__device__ __forceinline__ void leave(Out* out, const Value* values, u32 count, Change change) {
    for (u32 i = threadIdx.x * 4; i < count; i += blockDim.x * 4) {
        const Four<Value> four = *(const Four<Value>*)(values + i);
        Four<Out> changed;
#pragma unroll
        for (u32 k = 0; k < 4; k++) changed.of[k] = change(four.of[k]);
        if (i + 4 <= count) changed.leave(out + i);
        else {
#pragma unroll
            for (u32 k = 0; k < 4; k++)
                if (i + k < count) out[i + k] = changed.of[k];
        }
    }
}

extern "C" __global__ void __launch_bounds__(1024, 2)
    to_original(u64 vertices, const u64* starts, const u32* row, const u16* within, const u32* parent,
                const MEASURE* measure, MEASURE unreached, const NAME* names, PARENT* parent_out, FOUND* measure_out) {
    extern __shared__ uint4 room[];
    u32* parents = (u32*)room;
    MEASURE* measures = (MEASURE*)(parents + IDS);
    for (u64 block = blockIdx.x; block * IDS < vertices; block += gridDim.x) {
        const u64 first = starts[block], last = starts[block + 1];
        fill(parents, NONE);
        fill(measures, unreached);
        __syncthreads();
        for (u64 i = first + threadIdx.x; i < last; i += AT_ONCE * blockDim.x) {
            u32 from[AT_ONCE], to[AT_ONCE], found[AT_ONCE];
            MEASURE far[AT_ONCE];
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++) {
                const u64 at = i + k * blockDim.x;
                from[k] = at < last ? __ldcs(row + at) : NONE;
                to[k] = at < last ? __ldcs(within + at) : 0;
            }
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++) {
                found[k] = from[k] == NONE ? NONE : __ldg(parent + from[k]);
                far[k] = from[k] == NONE ? unreached : __ldg(measure + from[k]);
            }
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++)
                if (from[k] != NONE) {
                    parents[to[k]] = found[k];
                    measures[to[k]] = far[k];
                }
        }
        __syncthreads();
        const u64 begin = block * IDS;
        const u32 count = (u32)(vertices - begin < IDS ? vertices - begin : IDS);
        leave(parent_out + begin, parents, count, [&](u32 found) { return named(found, names); });
        leave(measure_out + begin, measures, count, [&](MEASURE found) { return converted(found, unreached); });
        __syncthreads(); // before the next block is entered
    }
}

// sums: rows that are reached and their tuples, of type ID; 0 at entry.
extern "C" __global__ void sum_reached(u64 rows, const u32* parent, const ID* tuples, u64* sums) {
    __shared__ u64 scratch[32];
    u64 reached = 0, found = 0;
    for (u64 row = (u64)blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += (u64)gridDim.x * blockDim.x)
        if (parent[row] != NONE) {
            reached++;
            found += tuples[row];
        }
    add_from_block(reached, sums, scratch);
    add_from_block(found, sums + 1, scratch);
}
