// What a BFS over several devices tells the others: bits of the frontier, marks of what it met, parents.
#pragma once
#include "bfs_flood.cuh"
#include "bfs_open.cuh"
#include "bfs_pull.cuh"
#include "bfs_push.cuh"
#include "peers.cuh"

// A frontier with more arcs than these marks what it meets on its own device first, since a mark there is
// quicker, and most have been made already;
#ifndef WIDE_ARCS
#define WIDE_ARCS (1u << 20)
#endif
// with more than these, the rows that are met look for their parents. Rows in host memory do not: many
// would be read beyond what the device has of them. Two devices flood instead, unless the frontier has more
// than FLOOD_ENTRIES rows.
#ifndef MANY_ARCS
#define MANY_ARCS (1u << 24)
#endif
static_assert(MANY_ARCS >= WIDE_ARCS, "who looks for parents is marked in the bitmaps of all devices");

__device__ __forceinline__ u32 owner_of(const Graph& g, u32 vertex) { return vertex >> 10 & ((1u << g.rank_bits) - 1); }
__device__ __forceinline__ u32 row_of(const Graph& g, u32 vertex) {
    return vertex >> 10 >> g.rank_bits << 10 | (vertex & 1023);
}
__device__ __forceinline__ u32 vertex_of(const Graph& g, u32 row) {
    return (row >> 10 << g.rank_bits | g.rank) << 10 | (row & 1023);
}

// Writes bits of the frontier to the other devices, whose words are zero before.
__device__ __forceinline__ void tell_bits(const Graph& g, const Peers& peers, u64 next, u32 quad, uint4 bits) {
    if (!(bits.x | bits.y | bits.z | bits.w)) return;
    for (u32 step = 1; step < peers.count; step++) {
        const u32 rank = peers.own + step < peers.count ? peers.own + step : peers.own + step - peers.count;
        peers.of<uint4>(rank, peers.fronts + next)[front_quad(g, quad)] = bits;
    }
}

// Tells what a pull has found; `next` is where the bitmap begins among all frontiers, in bytes.
__device__ __noinline__ void tell_found(const Graph g, const Peers peers, u64 next) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const uint4* const mine = peers.of<uint4>(peers.own, peers.fronts + next);
    for (u32 quad = thread; quad < g.quads; quad += threads)
        tell_bits(g, peers, next, quad, __ldcg(mine + front_quad(g, quad)));
}

// Marks the neighbours of the frontier's rows with their owners; those of this device that were
// visited are left out.
__device__ __noinline__ void mark_owners(const Graph g, const Search s, const Peers peers, u32 entries, u32 arcs) {
    over_frontier(g, s, 0, entries, arcs, [&](const u32 (&)[PUSH_TURNS], const u32 (&to)[PUSH_TURNS]) {
#pragma unroll
        for (u32 j = 0; j < PUSH_TURNS; j++) {
            if (to[j] == NONE) continue;
            const u32 owner = owner_of(g, to[j]), row = row_of(g, to[j]);
            if (owner == peers.own && __ldcg(s.visited + word_at(row)) & bit_at(row)) continue;
            atomicOr_system(peers.of<u32>(owner, peers.marks) + word_at(row), bit_at(row));
        }
    });
}

// Marks them in a bitmap of all vertices on this device.
__device__ __noinline__ void mark_wide(const Graph g, const Search s, u32* wide, u32 entries, u32 arcs) {
    over_frontier(g, s, 0, entries, arcs, [&](const u32 (&)[PUSH_TURNS], const u32 (&to)[PUSH_TURNS]) {
        u32 word[PUSH_TURNS];
#pragma unroll
        for (u32 j = 0; j < PUSH_TURNS; j++) word[j] = to[j] != NONE ? __ldcg(wide + word_at(to[j])) : FULL;
#pragma unroll
        for (u32 j = 0; j < PUSH_TURNS; j++)
            if (to[j] != NONE && !(word[j] & bit_at(to[j]))) atomicOr(wide + word_at(to[j]), bit_at(to[j]));
    });
}

// What all devices have marked of a quad of rows, each on its own device.
__device__ __forceinline__ uint4 marked_of(const Graph& g, const Peers& peers, u32 quad) {
    uint4 marked = make_uint4(0, 0, 0, 0);
    for (u32 rank = 0; rank < peers.count; rank++)
        marked = both(marked, load_system(peers.of<const uint4>(rank, peers.wide) + front_quad(g, quad)));
    return marked;
}

// Takes the marked rows that were not visited for the next frontier; their parents are to be lowered.
__device__ __noinline__ u64 take_marked(const Graph g, const Search s, const Peers peers, bool wide, u64 next,
                                        u32 level) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    uint4* const marks = peers.of<uint4>(peers.own, peers.marks);
    uint4* const mine = peers.of<uint4>(peers.own, peers.fronts + next);
    const u32 levels[4] = {level, level, level, level};
    u64 found = 0;
    for (u32 first = thread - lane; first < g.quads; first += threads) {
        const u32 own = first + lane;
        uint4 fresh = make_uint4(0, 0, 0, 0);
        if (own < g.quads) {
            const uint4 marked = wide ? marked_of(g, peers, own) : load_system(marks + own);
            const uint4 seen = __ldcg((const uint4*)s.visited + own);
            fresh = make_uint4(marked.x & ~seen.x, marked.y & ~seen.y, marked.z & ~seen.z, marked.w & ~seen.w);
            if (!wide && (marked.x | marked.y | marked.z | marked.w)) marks[own] = make_uint4(0, 0, 0, 0);
            if (fresh.x | fresh.y | fresh.z | fresh.w) ((uint4*)s.visited)[own] = both(seen, fresh);
            mine[front_quad(g, own)] = fresh;
            tell_bits(g, peers, next, own, fresh);
            found += count_of(fresh);
        }
        for (u32 rest = __ballot_sync(FULL, fresh.x | fresh.y | fresh.z | fresh.w); rest; rest &= rest - 1) {
            const u32 which = __ffs(rest) - 1;
            set_four(s, first + which, four_from(fresh, which), levels, make_uint4(NONE, NONE, NONE, NONE));
        }
    }
    return found;
}

// Has the rows just found take the smallest of all parents, wherever they are.
__device__ __noinline__ void lower_parents(const Graph g, const Search s, const Peers peers, const u32* next,
                                           u32 entries, u32 arcs) {
    over_frontier(g, s, 0, entries, arcs, [&](const u32 (&from)[PUSH_TURNS], const u32 (&to)[PUSH_TURNS]) {
        u32 word[PUSH_TURNS];
#pragma unroll
        for (u32 j = 0; j < PUSH_TURNS; j++) word[j] = to[j] != NONE ? __ldcg(next + word_at(to[j])) : 0;
#pragma unroll
        for (u32 j = 0; j < PUSH_TURNS; j++)
            if (to[j] != NONE && word[j] & bit_at(to[j]))
                atomicMin_system(peers.of<u32>(owner_of(g, to[j]), peers.parent) + row_of(g, to[j]),
                                 vertex_of(g, from[j]));
    });
}

// A flood of two devices reads each arc once, since reading host memory is what takes time. Each keeps the
// smallest parent that it has met of each of the other's rows, behind the starts of the queue.

// Nothing is known of the parents of rows not visited, nor of the other's rows.
__device__ __noinline__ void forget_parents(const Graph g, const Search s, uint4* others, u32 quads) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    raise_parents(g, s);
    for (u32 at = thread; at < quads * 32; at += threads) others[at] = make_uint4(NONE, NONE, NONE, NONE);
}

// Every arc lowers a parent, or what this device knows of it. Only visited rows of this device are left out.
__device__ __noinline__ void flood_both(const Graph g, const Search s, u32* others, u32 entries, u32 arcs) {
    over_long_rows(g, s, 0, entries, arcs, [&](u32 from, const u32 (&to)[FLOOD_TURNS]) {
        const u32 parent = vertex_of(g, from);
        u32 row[FLOOD_TURNS], known[FLOOD_TURNS], seen[FLOOD_TURNS];
#pragma unroll
        for (u32 k = 0; k < FLOOD_TURNS; k++) {
            const bool is_mine = owner_of(g, to[k]) == g.rank;
            row[k] = row_of(g, to[k]);
            known[k] = seen[k] = 0;
            if (to[k] != NONE) known[k] = __ldcg((is_mine ? s.parent : others) + row[k]);
            if (to[k] != NONE && is_mine) seen[k] = __ldcg(s.visited + word_at(row[k]));
        }
#pragma unroll
        for (u32 k = 0; k < FLOOD_TURNS; k++)
            if (known[k] > parent && !(seen[k] & bit_at(row[k])))
                atomicMin((owner_of(g, to[k]) == g.rank ? s.parent : others) + row[k], parent);
    });
}

// Takes the rows that have got a parent from either device for the next frontier.
__device__ __noinline__ u64 take_flooded_both(const Graph g, const Search s, const Peers peers, const uint4* theirs,
                                              u64 next, u32 level) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    uint4* const mine = peers.of<uint4>(peers.own, peers.fronts + next);
    u64 found = 0;
    for (u32 at = thread; at < g.quads * 32; at += threads) {
        const uint4 known = load_system(theirs + at), own = __ldcg((const uint4*)s.parent + at);
        const uint4 parent =
            make_uint4(min(own.x, known.x), min(own.y, known.y), min(own.z, known.z), min(own.w, known.w));
        const uint4 fresh = enter_flooded(g, s, at, parent, level);
        if (lane) continue;
        mine[front_quad(g, at / 32)] = fresh;
        tell_bits(g, peers, next, at / 32, fresh);
        found += count_of(fresh);
    }
    return found;
}

// Closes all rows but those that some device has marked and none has visited.
__device__ __noinline__ void close_unmarked(const Graph g, const Search s, const Peers peers, u32* closed) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 quad = thread; quad < g.quads; quad += threads) {
        const uint4 marked = marked_of(g, peers, quad), seen = __ldcg((const uint4*)s.visited + quad);
        ((uint4*)closed)[quad] =
            make_uint4(seen.x | ~marked.x, seen.y | ~marked.y, seen.z | ~marked.z, seen.w | ~marked.w);
    }
}
