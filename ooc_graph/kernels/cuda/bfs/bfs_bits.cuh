// Bits of the frontier, in shared memory as far as hubs go, and what is entered of found rows.
#pragma once
#include "bfs_graph.cuh"

// Dynamic shared memory: the frontier's bits as far as hubs go; then the buffers of 32 warps, though a
// block may have fewer; then the rough bits of the frontier. In narrow levels the frontiers and the
// bits of visited rows take the place of the first two.
extern __shared__ uint4 shared[];

// A warp's buffer in shared memory: rows of its quads, by quad and row, and words of bits.
struct WarpBuffer {
    union {
        u16 rows[WARP_QUADS * 128];
        u32 words[(MAPS + 1) * WARP_QUADS * 4];
    };
    u32 got[WARP_QUADS * 4];
};
static_assert(WARP_QUADS == 8, "the words of a bitmap for a warp's quads are one a lane");
#ifdef BUFFER_BYTES
static_assert(sizeof(WarpBuffer) == BUFFER_BYTES, "the caller sizes shared memory by it");
#endif

__device__ __forceinline__ WarpBuffer& own_buffer() { return ((WarpBuffer*)(shared + HUB_QUADS))[threadIdx.x / 32]; }

__device__ __forceinline__ u32* rough_words() { return (u32*)(shared + HUB_QUADS + 32 * (u32)sizeof(WarpBuffer) / 16); }

// How many quads share a rough bit, as a power of two.
__device__ __forceinline__ u32 rough_shift(const Graph& g) { return 32 - __clz((int)((g.quads - 1) / ROUGH_BITS)); }

// The frontier in shared memory as far as hubs go, and all of it in global memory. Of a small
// frontier most words are zero: where it is `rough`, bits of 1 << shift quads each, in shared memory,
// tell which need not be read.
struct Front {
    const u32* words;
    u32 hub_words;
    u32 shift;
    bool rough;
};

// What one thread has counted since the level began.
struct Tally {
    u64 found, examined;
};

// A quad of a bitmap has the bits of 128 rows, and each lane of a warp four rows in a row: word j
// holds the j-th row of every lane.
__device__ __forceinline__ u32 word_at(u32 vertex) { return vertex >> 7 << 2 | (vertex & 3); }
__device__ __forceinline__ u32 bit_at(u32 vertex) { return 1u << (vertex >> 2 & 31); }
__device__ __forceinline__ u32 vertex_at(u32 word, u32 bit) { return word >> 2 << 7 | bit << 2 | (word & 3); }

// Where the frontier has the bits of a quad of rows, of a word of them.
__device__ __forceinline__ u32 front_quad(const Graph& g, u32 quad) {
#if PEERS
    return ((quad >> 3) << g.rank_bits | g.rank) << 3 | (quad & 7);
#else
    return quad;
#endif
}
__device__ __forceinline__ u32 front_word(const Graph& g, u32 word) { return front_quad(g, word >> 2) << 2 | (word & 3); }

__device__ __forceinline__ bool lane_of(u32 word) { return word >> threadIdx.x % 32 & 1; }

// The word that holds a vertex's bit. All loads are predicated, so that several look-ups overlap.
__device__ __forceinline__ u32 word_of(const Front& front, u32 vertex) {
    u32 word = word_at(vertex), bits = 0;
    bool far = word >= front.hub_words && vertex != NONE;
    if (word < front.hub_words) bits = ((const u32*)shared)[word];
    if (front.rough) {
        const u32 group = vertex >> 7 >> front.shift;
        u32 rough = 0;
        if (far) rough = rough_words()[group >> 5];
        far = rough >> (group & 31) & 1;
    }
    if (far) bits = __ldcg(front.words + word);
    return bits;
}

__device__ __forceinline__ bool holds(const Front& front, u32 vertex) {
    return word_of(front, vertex) & bit_at(vertex);
}

__device__ __forceinline__ void set_found(const Search& s, u32 vertex, u32 level, u32 parent) {
    s.level[vertex] = (LEVEL)level;
    s.parent[vertex] = parent;
}

// Enters what a lane knows of its four rows, where `mask` has their bits.
__device__ __forceinline__ void set_four(const Search& s, u32 quad, u32 mask, const u32* level, uint4 parent) {
    const u32 at = quad * 32 + threadIdx.x % 32;
    if (mask == 15) {
        const u32 low = (level[0] & 255) | (level[1] & 255) << 8;
        if (sizeof(LEVEL) == 1) ((u32*)s.level)[at] = low | (level[2] & 255) << 16 | level[3] << 24;
        else ((uint4*)s.level)[at] = make_uint4(level[0], level[1], level[2], level[3]);
        ((uint4*)s.parent)[at] = parent;
        return;
    }
    if (mask & 1) set_found(s, at * 4, level[0], parent.x);
    if (mask & 2) set_found(s, at * 4 + 1, level[1], parent.y);
    if (mask & 4) set_found(s, at * 4 + 2, level[2], parent.z);
    if (mask & 8) set_found(s, at * 4 + 3, level[3], parent.w);
}

// Levels of some of a lane's four rows; those of bytes lie in one word.
struct Levels {
    u32 mask, bytes;
    u32 level[4];

    __device__ __forceinline__ Levels(u32 mask, u32 value) : mask(0), bytes(0), level{0, 0, 0, 0} { add(mask, value); }

    // Rows that had none before.
    __device__ __forceinline__ void add(u32 rows, u32 value) {
        mask |= rows;
        if (sizeof(LEVEL) == 1) bytes |= (rows * 0x00204081u & 0x01010101u) * (value & 255);
        else
            for (u32 j = 0; j < 4; j++) level[j] = rows >> j & 1 ? value : level[j];
    }

    __device__ __forceinline__ void enter(const Search& s, u32 at) const {
        if (mask == 15) {
            if (sizeof(LEVEL) == 1) ((u32*)s.level)[at] = bytes;
            else ((uint4*)s.level)[at] = make_uint4(level[0], level[1], level[2], level[3]);
        } else if (mask) {
            for (u32 j = 0; j < 4; j++)
                if (mask >> j & 1) s.level[at * 4 + j] = (LEVEL)(sizeof(LEVEL) == 1 ? bytes >> 8 * j & 255 : level[j]);
        }
    }
};

__device__ __forceinline__ void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// A lane's bits of a quad's words, its first row's lowest.
__device__ __forceinline__ u32 four_of(uint4 words) {
    return lane_of(words.x) | lane_of(words.y) << 1 | lane_of(words.z) << 2 | lane_of(words.w) << 3;
}

__device__ __forceinline__ u32 count_of(uint4 words) {
    return __popc(words.x) + __popc(words.y) + __popc(words.z) + __popc(words.w);
}

__device__ __forceinline__ uint4 both(uint4 a, uint4 b) {
    return make_uint4(a.x | b.x, a.y | b.y, a.z | b.z, a.w | b.w);
}

// Looks at four neighbours in their order; the first member of the frontier, or NONE.
__device__ __forceinline__ u32 first_of(const Front& front, uint4 u, Tally& tally) {
    u32 x = word_of(front, u.x), y = word_of(front, u.y), z = word_of(front, u.z), w = word_of(front, u.w);
    u32 member = w & bit_at(u.w) ? u.w : NONE;
    if (z & bit_at(u.z)) member = u.z;
    if (y & bit_at(u.y)) member = u.y;
    if (x & bit_at(u.x)) member = u.x;
#ifdef COUNT
    tally.examined += (u.x != NONE) + (u.y != NONE && u.y <= member) + (u.z != NONE && u.z <= member) +
                      (u.w != NONE && u.w <= member);
#endif
    return member;
}
