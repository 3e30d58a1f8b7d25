// Checks of whole answers; see gpu_checks.py. One warp a row.
typedef unsigned int u32;
typedef unsigned long long u64;
#define NONE 0xFFFFFFFFu
#define INFINITE 0x7F800000u

// wrong[0]: rows that break a rule.
extern "C" __global__ void check_bfs(u32 rows, u32 root, const u64* offsets, const u32* neighbors,
                                     const long long* original_of, const u32* parent, const u32* level, u64* wrong) {
    const u32 lane = threadIdx.x % 32, step = gridDim.x * blockDim.x / 32;
    for (u64 v = (blockIdx.x * blockDim.x + threadIdx.x) / 32; v < rows; v += step) {
        u32 least = NONE, first = NONE;
        for (u64 at = offsets[v] + lane; at < offsets[v + 1]; at += 32) least = min(least, level[neighbors[at]]);
        for (int k = 16; k; k >>= 1) least = min(least, __shfl_xor_sync(NONE, least, k));
        for (u64 at = offsets[v] + lane; at < offsets[v + 1]; at += 32)
            if (level[neighbors[at]] == least) first = min(first, neighbors[at]);
        for (int k = 16; k; k >>= 1) first = min(first, __shfl_xor_sync(NONE, first, k));
        bool right;
        if (v == root) right = level[v] == 0 && parent[v] == original_of[v];
        else if (least == NONE) right = level[v] == NONE && parent[v] == NONE;
        else right = level[v] == least + 1 && parent[v] == original_of[first];
        if (lane == 0 && !right) atomicAdd(wrong, 1ull);
    }
}

// wrong[0]: rows that break a rule; wrong[1]: rows that arcs adding nothing alone lead to, whose
// parent is only known to be at the same distance.
extern "C" __global__ void check_sssp(u32 rows, u32 root, const u64* offsets, const u32* neighbors,
                                      const float* weights, const long long* original_of, const int* internal_of,
                                      const u32* parent, const float* distance, u64* wrong) {
    const u32 lane = threadIdx.x % 32, step = gridDim.x * blockDim.x / 32;
    for (u64 v = (blockIdx.x * blockDim.x + threadIdx.x) / 32; v < rows; v += step) {
        const float mine = distance[v];
        u32 least = INFINITE;
        u64 nearest = ~0ull;
        for (u64 at = offsets[v] + lane; at < offsets[v + 1]; at += 32) {
            const float there = distance[neighbors[at]], sum = there + weights[at];
            least = min(least, __float_as_uint(sum));
            if (sum == mine && there < mine) nearest = min(nearest, (u64)__float_as_uint(there) << 32 | neighbors[at]);
        }
        for (int k = 16; k; k >>= 1) {
            least = min(least, __shfl_xor_sync(NONE, least, k));
            nearest = min(nearest, __shfl_xor_sync(NONE, nearest, k));
        }
        if (lane) continue;
        bool right;
        if (v == root) right = mine == 0 && parent[v] == original_of[v];
        else if (least == INFINITE) right = __float_as_uint(mine) == INFINITE && parent[v] == NONE;
        else if (__float_as_uint(mine) != least) right = false;
        else if (nearest != ~0ull) right = parent[v] == original_of[(u32)nearest];
        else {
            right = parent[v] != NONE && distance[internal_of[parent[v]]] == mine;
            atomicAdd(wrong + 1, 1ull);
        }
        if (!right) atomicAdd(wrong, 1ull);
    }
}
