// Minima of sums from registers alone: what a device reaches where nothing is fetched.
//
// VALUE is int or float. A thread lowers 8 x 4 numbers a turn, and one number of each row of sums
// changes with it, by one more instruction, so that no turn is the same as the one before.

typedef VALUE Value;

__device__ __forceinline__ int lower(int a, int b) { return min(a, b); }
__device__ __forceinline__ float lower(float a, float b) { return fminf(a, b); }
__device__ __forceinline__ int change(int a, int at) { return a ^ at; }
__device__ __forceinline__ float change(float a, float at) { return fminf(-a, at); }

extern "C" __global__ void __launch_bounds__(256) least(int loops, int add, int* out) {
    Value at[8][4];
    for (int i = 0; i < 8; i++) for (int j = 0; j < 4; j++) at[i][j] = Value(threadIdx.x * i + j);
    Value a[8], b[4];
    for (int i = 0; i < 8; i++) a[i] = Value(add * i + int(threadIdx.x));
    for (int j = 0; j < 4; j++) b[j] = Value(add - j);
    for (int k = 0; k < loops; k++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) at[i][j] = lower(a[i] + b[j], at[i][j]);
            a[i] = change(a[i], at[i][0]);
        }
    }
    Value sum = 0;
    for (int i = 0; i < 8; i++) for (int j = 0; j < 4; j++) sum += at[i][j];
    out[blockIdx.x * 256 + threadIdx.x] = int(sum);
}
