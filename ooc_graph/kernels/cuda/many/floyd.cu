// Shortest distances between all pairs at once, by blocked Floyd-Warshall: integers >= 0 of 32 bits.
//
// The matrix holds at [v][u] how far v is from u, in rows of `side` numbers, a multiple of SIDE.
// TOP_SUM stands where there is no path, or one that long: two of it fit 32 bits, and no sum with
// it is ever noted. PIVOTS vertices at a time become ones that paths may lead through: first the bands
// of their rows and columns, then all other pairs, whose minimum of sums is taken from registers.
#include "floyd.cuh"
#include "grid.cuh"

#define PIVOTS 64
#define SIDE 128
#define PITCH (PIVOTS + 4)
#define CLOSERS 256 // threads of a block, 16 x 16

// Sets what arcs of the rows of vertices `row`, from `neighbor`, weigh.
extern "C" __global__ void floyd_arcs(u64 arcs, const u32* row, const u32* neighbor, const long long* weight, u64 side,
                                      int* matrix) {
    for (u64 k = blockIdx.x * (u64)blockDim.x + threadIdx.x; k < arcs; k += (u64)gridDim.x * blockDim.x)
        matrix[row[k] * side + neighbor[k]] = (int)min(weight[k], (long long)TOP_SUM);
}

extern "C" __global__ void floyd_clear(u64 side, int* matrix) {
    for (u64 k = blockIdx.x * (u64)blockDim.x + threadIdx.x; k < side * side; k += (u64)gridDim.x * blockDim.x)
        matrix[k] = k / side == k % side ? 0 : TOP_SUM;
}

struct Corner {
    int at[4][4]; // rows ty * 4 + i, columns tx * 4 + j of a square of pivots
};

__device__ __forceinline__ Corner load_corner(const int* from, u64 side) {
    Corner mine;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int4 four = *(const int4*)(from + (threadIdx.x / 16 * 4 + i) * side + threadIdx.x % 16 * 4);
        mine.at[i][0] = four.x;
        mine.at[i][1] = four.y;
        mine.at[i][2] = four.z;
        mine.at[i][3] = four.w;
    }
    return mine;
}

__device__ __forceinline__ void store_corner(int* to, u64 side, const Corner& mine) {
#pragma unroll
    for (int i = 0; i < 4; i++)
        *(int4*)(to + (threadIdx.x / 16 * 4 + i) * side + threadIdx.x % 16 * 4) =
            make_int4(mine.at[i][0], mine.at[i][1], mine.at[i][2], mine.at[i][3]);
}

// Floyd-Warshall on the pivots alone.
__device__ __forceinline__ void close_corner(Corner& mine) {
    __shared__ int row[2][PIVOTS], column[2][PIVOTS];
    const u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    for (u32 four = 0; four < PIVOTS / 4; four++) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int turn = k & 1;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (ty == four) row[turn][tx * 4 + i] = mine.at[k][i];
                if (tx == four) column[turn][ty * 4 + i] = mine.at[i][k];
            }
            __syncthreads(); // nobody is two steps ahead, so two turns do
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    mine.at[i][j] = min(column[turn][ty * 4 + i] + row[turn][tx * 4 + j], mine.at[i][j]);
        }
    }
}

// Bands of the pivots from `first` on: blocks with even numbers take a square of their rows, the others
// one of their columns, which they also leave in `across`, (PIVOTS, side). Every block closes the
// square of the pivots for itself: what it reads of it may be final already, in part or whole.
extern "C" __global__ void __launch_bounds__(CLOSERS) floyd_bands(u64 side, u64 first, int* matrix, int* across) {
    __shared__ int4 left4[PIVOTS * PITCH / 4], right4[PIVOTS * PITCH / 4];
    int *left = (int*)left4, *right = (int*)right4;
    const u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const u64 at = blockIdx.x / 2 * (u64)PIVOTS;
    const bool is_column = blockIdx.x & 1;
    int* pivots = matrix + first * side + first;
    int* square = is_column ? matrix + at * side + first : matrix + first * side + at;
    const Corner other = load_corner(square, side);
    Corner mine = load_corner(pivots, side);
    close_corner(mine);
    if (at != first) {
        store_corner(is_column ? right : left, PITCH, mine);
        store_corner(is_column ? left : right, PITCH, other);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) mine.at[i][j] = TOP_SUM;
        for (u32 k = 0; k < PIVOTS; k++) {
            const int4 b = *(const int4*)(right + k * PITCH + tx * 4);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int a = left[(ty * 4 + i) * PITCH + k];
                mine.at[i][0] = min(a + b.x, mine.at[i][0]);
                mine.at[i][1] = min(a + b.y, mine.at[i][1]);
                mine.at[i][2] = min(a + b.z, mine.at[i][2]);
                mine.at[i][3] = min(a + b.w, mine.at[i][3]);
            }
        }
    }
    store_corner(square, side, mine);
    if (is_column)
#pragma unroll
        for (int j = 0; j < 4; j++)
            *(int4*)(across + (tx * 4 + j) * side + at + ty * 4) =
                make_int4(mine.at[0][j], mine.at[1][j], mine.at[2][j], mine.at[3][j]);
}

// All pairs, over the pivots: a block has SIDE x SIDE of them, a thread 8 x 8. Nothing of the bands
// changes any more, so nobody writes what others read.
extern "C" __global__ void __launch_bounds__(CLOSERS, 2)
    floyd_tiles(u64 side, u64 first, int* __restrict__ matrix, const int* __restrict__ across) {
    extern __shared__ int4 bands[];
    int4 *left = bands, *right = left + PIVOTS * SIDE / 4;
    const u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const u64 top = blockIdx.y * (u64)SIDE, begin = blockIdx.x * (u64)SIDE;
#pragma unroll
    for (u32 k = threadIdx.x; k < PIVOTS * SIDE / 4; k += CLOSERS) {
        const u64 pivot = k / (SIDE / 4), offset = k % (SIDE / 4) * 4;
        left[k] = *(const int4*)(across + pivot * side + top + offset);
        right[k] = *(const int4*)(matrix + (first + pivot) * side + begin + offset);
    }
    __syncthreads();
    int least[8][8];
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) least[i][j] = TOP_SUM;
#pragma unroll 4
    for (u32 k = 0; k < PIVOTS; k++) {
        const int4 a0 = left[k * (SIDE / 4) + ty], a1 = left[k * (SIDE / 4) + 16 + ty];
        const int4 b0 = right[k * (SIDE / 4) + tx], b1 = right[k * (SIDE / 4) + 16 + tx];
        const int a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
        const int b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 8; j++) least[i][j] = min(a[i] + b[j], least[i][j]);
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const u64 row = top + i / 4 * 64 + ty * 4 + i % 4;
            int4* to = (int4*)(matrix + row * side + begin + half * 64 + tx * 4);
            const int* found = least[i] + half * 4;
            const int4 old = *to;
            if (found[0] < old.x || found[1] < old.y || found[2] < old.z || found[3] < old.w)
                *to = make_int4(min(found[0], old.x), min(found[1], old.y), min(found[2], old.z), min(found[3], old.w));
        }
}
