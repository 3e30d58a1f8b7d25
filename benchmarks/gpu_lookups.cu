// The ceiling of random look-ups.
typedef unsigned int u32;
typedef unsigned long long u64;

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
