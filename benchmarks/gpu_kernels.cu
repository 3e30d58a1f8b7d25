// Kernels of the benchmark alone: the ceiling of random look-ups, and answers in original order.
typedef unsigned int u32;
typedef unsigned long long u64;

#ifndef VALUE
#define VALUE float
#endif
#define NONE 0xFFFFFFFFu
#define AT_ONCE 8

__device__ __forceinline__ u32 mixed(u32 x) {
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    return x ^ x >> 16;
}

// Each thread reads `rounds` * AT_ONCE words at random, AT_ONCE of them under way together. Read
// past the first cache, as the searches do.
extern "C" __global__ void look_up(const u32* table, u32 words, u32 rounds, u32* out) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    u32 sum = 0;
    for (u32 k = 0; k < rounds; k++) {
        u32 value[AT_ONCE];
#pragma unroll
        for (u32 j = 0; j < AT_ONCE; j++) {
            const u32 at = (u32)((u64)mixed((thread * rounds + k) * AT_ONCE + j) * words >> 32);
            value[j] = __ldcg(table + at);
        }
#pragma unroll
        for (u32 j = 0; j < AT_ONCE; j++) sum += value[j];
    }
    if (sum == NONE) out[0] = sum; // so that nothing is left out; the table holds zeros
}

// Answers by original id; isolated vertices were not reached.
extern "C" __global__ void to_original(u64 vertices, const int* internal_of, const u32* parent, const VALUE* value,
                                       VALUE unreached, u32* parent_by_id, VALUE* value_by_id) {
    const u64 thread = blockIdx.x * (u64)blockDim.x + threadIdx.x, threads = gridDim.x * (u64)blockDim.x;
    for (u64 v = thread; v < vertices; v += threads) {
        const int row = internal_of[v];
        parent_by_id[v] = row < 0 ? NONE : parent[row];
        value_by_id[v] = row < 0 ? unreached : value[row];
    }
}

// Sums rows of so many words each, a warp a row, wherever they are: what a search does with rows
// that it has listed, without what it does with their neighbours.
extern "C" __global__ void sum_rows(const u32* __restrict__ columns, const u32* __restrict__ listed,
                                    long long count, long long words, u64* total) {
    const long long warps = (long long)gridDim.x * blockDim.x / 32;
    const int lane = threadIdx.x % 32;
    u64 sum = 0;
    for (long long at = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32; at < count;
         at += warps) {
        const u32* row = columns + listed[at] * words;
        for (long long word = lane; word < words; word += 32) sum += row[word];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, step);
    if (lane == 0) atomicAdd(total, sum);
}
