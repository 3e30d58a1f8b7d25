// BFS on the list of edges in one cooperative launch; see gpu_edge_list.py. grid.cuh stands before it.
//
// A level goes over all vertices, then over the pieces of the list that may lead from the frontier to
// what is not found yet. Every edge from the frontier to a vertex without a level offers its nearer
// end as parent, and the smallest wins.
//
// ONCE: an edge stands in the list once and leads both ways; else from tail to head alone.
// WIDE: the positions of both ends in their segments have 32 bits; else 16.
// SHARED: two bits of each vertex of both segments are in shared memory; else levels are looked up.

#ifndef THREADS
#define THREADS 512u
#endif
#define BLOCKS 3 // of a multiprocessor
#define AT_ONCE 4 // edges that a thread reads at a time
#define CHUNK 512u // vertices that a warp looks at together, all of one segment
#define SEGMENT_QUADS 1024u // 16 bytes of two bits a vertex

#if WIDE
typedef u64 Edge;
typedef u32 End;
#else
typedef u32 Edge;
typedef u16 End;
#endif

enum { VISITED, FRONT, OPEN };

// Vertices of the frontier are counted in the low half of a word, those not found yet in the high one.
struct State {
    Barrier barrier;
    u32 levels, listed;
    u64 seen[2]; // of all vertices, of even and odd levels
    u64 examined; // edges
};

struct Search {
    LEVEL* level;
    u32* parent;
    u32 depth;

    __device__ __forceinline__ u32 state_of(LEVEL level) const {
        return level < depth ? VISITED : level == depth ? FRONT : OPEN;
    }

    // Offers a parent. Whoever is first finds none and enters the level, perhaps with others.
    __device__ __forceinline__ void visit(u32 vertex, u32 by) const {
        const u32 known = __ldcg(parent + vertex);
        if (known <= by) return;
        if (known == NONE) level[vertex] = (LEVEL)(depth + 1);
        atomicMin(parent + vertex, by);
    }
};

// Two bits of each vertex, as shared memory is to have them; counts by segment, and of all.
__device__ __forceinline__ void survey(const Search& s, u32 rows, const u32* segment_of, u32* states, u64* counts,
                                       u64* seen, u64* scratch) {
    const u32 lane = threadIdx.x % 32, warps = gridDim.x * blockDim.x / 32;
    u64 sum = 0;
    for (u32 chunk = (blockIdx.x * blockDim.x + threadIdx.x) / 32; chunk * CHUNK < rows; chunk += warps) {
        const u32 first = chunk * CHUNK + lane * 16;
        u32 found = 0;
        if (first < rows) {
            __align__(16) LEVEL levels[16];
#pragma unroll
            for (u32 k = 0; k < sizeof(LEVEL); k++)
                ((uint4*)levels)[k] = __ldcg((const uint4*)(s.level + first) + k);
#pragma unroll
            for (u32 k = 0; k < 16; k++)
                if (first + k < rows) found |= s.state_of(levels[k]) << 2 * k;
        }
        if (SHARED) states[chunk * 32 + lane] = found;
        const u64 count = warp_sum((u64)__popc(found & 0xAAAAAAAA) << 32 | __popc(found & 0x55555555));
        if (lane == 0) {
            atomicAdd(counts + __ldg(segment_of + chunk), count);
            sum += count;
        }
    }
    add_from_block(sum, seen, scratch);
}

// Whether edges may lead from a segment to another.
__device__ __forceinline__ bool leads(u64 from, u64 to) { return (u32)from && to >> 32; }

// Reads the edges of one piece; `tails` and `heads` have the bits of its segments.
__device__ __forceinline__ void read_piece(const Search& s, const Edge* edges, u32 count, u32 tail_base, u32 head_base,
                                           const u32* tails, const u32* heads) {
    for (u32 at = threadIdx.x; at < count; at += AT_ONCE * THREADS) {
        u32 tail[AT_ONCE], head[AT_ONCE], of_tail[AT_ONCE], of_head[AT_ONCE];
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) {
            const Edge edge = at + k * THREADS < count ? __ldcs(edges + at + k * THREADS) : 0;
            tail[k] = (End)(edge >> 8 * sizeof(End));
            head[k] = (End)edge;
        }
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) {
            // What others write meanwhile is above this level, as what they overwrite is: caches may keep that.
            if (SHARED) {
                of_tail[k] = tails[tail[k] / 16] >> tail[k] % 16 * 2 & 3;
                of_head[k] = heads[head[k] / 16] >> head[k] % 16 * 2 & 3;
            } else {
                of_tail[k] = s.state_of(s.level[tail_base + tail[k]]);
                of_head[k] = s.state_of(s.level[head_base + head[k]]);
            }
        }
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) {
            if (at + k * THREADS >= count || (of_tail[k] ^ of_head[k]) != (FRONT ^ OPEN)) continue;
            if (of_tail[k] == FRONT) s.visit(head_base + head[k], tail_base + tail[k]);
            else if (ONCE) s.visit(tail_base + tail[k], head_base + head[k]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    edge_bfs(u32 rows, u32 segments, u32 pieces, const u32* base, const u32* segment_of, const u64* begin,
             const u32* tails, const u32* heads, const Edge* edges, LEVEL* level, u32* parent, u32* states, u64* counts,
             u32* list, State* state, u32 root) {
    __shared__ u64 scratch[32];
#if SHARED
    __shared__ uint4 bits[2 * SEGMENT_QUADS];
#else
    uint4* const bits = nullptr;
#endif
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const bool chief = thread == 0;
    u32 goal = 0;
    for (u32 v = thread; v < rows; v += threads) {
        level[v] = v == root ? 0 : (LEVEL)-1;
        parent[v] = v == root ? root : NONE;
    }
    for (u32 k = thread; k < 2 * segments; k += threads) counts[k] = 0;
    if (chief) state->seen[0] = state->seen[1] = state->examined = state->listed = 0;
    grid_barrier(&state->barrier, goal);
    Search s = {level, parent, 0};
    for (;; s.depth++) {
        const u32 turn = s.depth & 1;
        u64* const mine = counts + turn * segments;
        u64* const next = counts + (turn ^ 1) * segments;
        survey(s, rows, segment_of, states, mine, state->seen + turn, scratch);
        grid_barrier(&state->barrier, goal);
        // Levels of a byte end before the one that says unreached.
        if (!leads(__ldcg(state->seen + turn), __ldcg(state->seen + turn)) || s.depth + 1 == (LEVEL)-1) break;
        for (u32 k = thread; k < segments; k += threads) next[k] = 0;
        if (chief) state->seen[turn ^ 1] = 0;
        for (u32 piece = thread; piece - threadIdx.x % 32 < pieces; piece += threads) {
            bool is_useful = false;
            if (piece < pieces) {
                const u64 tail = __ldcg(mine + __ldg(tails + piece)), head = __ldcg(mine + __ldg(heads + piece));
                is_useful = leads(tail, head) || (ONCE && leads(head, tail));
            }
            append(list, &state->listed, 0, is_useful, piece);
        }
        grid_barrier(&state->barrier, goal);
        const u32 listed = __ldcg(&state->listed);
        u64 examined = 0;
        for (u32 k = blockIdx.x; k < listed; k += gridDim.x) {
            const u32 piece = __ldcg(list + k), tail = __ldg(tails + piece), head = __ldg(heads + piece);
            const u32 tail_base = __ldg(base + tail), head_base = __ldg(base + head);
            u32 own = 0; // where the head's bits begin: a segment needs them once
            if (SHARED) {
                own = tail == head ? 0 : SEGMENT_QUADS;
                const u32 of_tail = (__ldg(base + tail + 1) - tail_base + 63) / 64;
                const u32 of_head = tail == head ? 0 : (__ldg(base + head + 1) - head_base + 63) / 64;
                __syncthreads(); // the piece before is read
                for (u32 q = threadIdx.x; q < of_tail; q += blockDim.x)
                    bits[q] = __ldcg((const uint4*)(states + tail_base / 16) + q);
                for (u32 q = threadIdx.x; q < of_head; q += blockDim.x)
                    bits[own + q] = __ldcg((const uint4*)(states + head_base / 16) + q);
                __syncthreads();
            }
            const u64 from = __ldg(begin + piece);
            const u32 count = (u32)(__ldg(begin + piece + 1) - from);
            read_piece(s, edges + from, count, tail_base, head_base, (const u32*)bits, (const u32*)(bits + own));
            if (threadIdx.x == 0) examined += count;
        }
        if (threadIdx.x == 0 && examined) atomicAdd(&state->examined, examined);
        grid_barrier(&state->barrier, goal);
        if (chief) state->listed = 0;
    }
    if (chief) state->levels = s.depth;
    leave_grid(&state->barrier);
}
