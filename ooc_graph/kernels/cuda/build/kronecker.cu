// Graph500's Kronecker edges, bit for bit (twin of kronecker.py, which tells the mathematics).
//
// A thread starts at its first edge and continues by the number of threads, a power of two, so that
// one matrix moves its state along and neighbouring threads write neighbouring edges.
//
// The host sets ID, the type of ids: u32 or u64.
#include "grid.cuh"

#define P 2147483647ull
#define X 107374182ull
#define Y 104480ull

struct Mrg {
    u64 z[5]; // newest first
};

__device__ __forceinline__ u64 fold(u64 value) { return (value & P) + (value >> 31); }
__device__ __forceinline__ u64 reduce(u64 value) { // below 2**62
    value = fold(fold(value));
    return value >= P ? value - P : value;
}

__device__ __forceinline__ u64 draw(Mrg& state) {
    u64 value = reduce(X * state.z[0] + Y * state.z[4]);
    for (int k = 4; k; k--) state.z[k] = state.z[k - 1];
    state.z[0] = value;
    return value;
}

__device__ __forceinline__ void apply(Mrg& state, const u64* matrix) {
    Mrg old = state;
    for (int row = 0; row < 5; row++) {
        const u64* m = matrix + 5 * row;
        u64 four = __ldg(m) * old.z[0] + __ldg(m + 1) * old.z[1];
        four = fold(four) + __ldg(m + 2) * old.z[2];
        four = fold(four) + __ldg(m + 3) * old.z[3];
        state.z[row] = reduce(fold(four) + __ldg(m + 4) * old.z[4]);
    }
}

__device__ __forceinline__ u64 scramble(u64 vertex, u64 zero, u64 one, u32 scale) {
    vertex += zero + one;
    vertex *= zero | 0x4519840211493211ull;
    vertex = __brevll(vertex) >> (64 - scale);
    vertex *= one | 0x3050852102C843A5ull;
    return __brevll(vertex) >> (64 - scale);
}

// powers: (63, 5, 5), the matrix of one edge to the power 2**i. weight may be null.
// 2**thread_bits threads make edges start to start + count - 1.
extern "C" __global__ void generate(u64 start, u64 count, u32 scale, u32 thread_bits, const u64* seed,
                                    const u64* powers, const u64* constants, ID* source, ID* target, float* weight) {
    u64 edge = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (edge >= count) return;
    Mrg first;
    for (int k = 0; k < 5; k++) first.z[k] = seed[k];
    for (u64 bits = start + edge; bits; bits &= bits - 1) apply(first, powers + 25 * (__ffsll(bits) - 1));
    for (; edge < count; edge += 1ull << thread_bits) {
        Mrg state = first;
        u64 u = 0, v = 0;
        for (u32 level = 0; level < scale;) {
            u64 value = draw(state);
            if (value < 3647) continue;
            u32 residue = (u32)value % 10000u;
            u32 down = residue >= 1900 && (residue < 3800 || residue >= 9500); // C, D: the source's bit
            u32 right = residue < 1900 || residue >= 9500;                     // B, D: the target's
            if (u == v && down > right) {
                down = 0;
                right = 1;
            }
            u = 2 * u + down;
            v = 2 * v + right;
            level++;
        }
        source[edge] = (ID)scramble(u, constants[0], constants[1], scale);
        target[edge] = (ID)scramble(v, constants[0], constants[1], scale);
        if (weight) weight[edge] = (float)((double)(float)(u32)draw(state) * 4.65661287524579692e-10);
        apply(first, powers + 25 * thread_bits);
    }
}
