// BFS top-down while levels are narrow: one block goes from level to level by itself, and the
// others wait at one barrier. What a level costs is the chain of accesses that wait for each other,
// so that chain is kept short: the frontier stands in shared memory as the arcs of its rows, four to
// an entry; the bits of visited rows are there too if they fit; an arc says how many entries
// its row has; and whoever claims a row loads these at once, while positions are being given out. Only
// levels are written. Parents follow from them in one pass of the whole grid, when narrow levels end.
#pragma once
#include "bfs_bits.cuh"
#include "shared.cuh"

// Whether levels may be narrow: the caller says so if rows are short, and brings `FixedRows`.
#ifndef THIN
#define THIN 0
#endif
// Entries of a narrow frontier, and the most arcs of one to begin with.
#ifndef NARROW_ARCS
#define NARROW_ARCS (HUB_WORDS / 8 < 3072 ? HUB_WORDS / 8 : 3072)
#endif
#define SHARED_QUADS (HUB_QUADS + 32 * (u32)sizeof(WarpBuffer) / 16 - 2 * NARROW_ARCS - 3)
// An arc of `FixedRows`: the neighbour, and how many entries beyond its first its row has.
#define ENTRY_ID_BITS 29
#define ENTRY_ID_MASK ((1u << ENTRY_ID_BITS) - 1)
// So many, or more: too many for narrow levels. As entries they end them.
#define MOST_PLANES 7u // as the caller's planes
#define TOO_WIDE (1u << 16)

// Four arcs of each row; of the longer rows four more in a plane behind, and so on.
struct FixedRows {
    const uint4* arcs;
    const u32* planes; // where each begins
};

// What a level has found: entries of the next one and rows; and the arcs that it went through.
struct Narrow {
    u32 entries, rows, arcs, unused; // as wide as an entry
};

// Where things are in shared memory, as addresses: the counts of three levels, in turn, behind two
// frontiers; then the bits of visited rows, if they fit.
struct Board {
    u32 now, next, count, visited_bits;
};

// Entries beyond the first of the rows that lanes have won; all lanes of a warp call it.
__device__ __noinline__ void more_planes(const FixedRows fixed, uint4 arcs, u32 won, u32 next, u32 count) {
    const u32 arc[4] = {arcs.x, arcs.y, arcs.z, arcs.w};
    u32 mine = 0;
#pragma unroll
    for (u32 j = 0; j < 4; j++)
        if (won >> j & 1) mine += arc[j] >> ENTRY_ID_BITS < MOST_PLANES ? arc[j] >> ENTRY_ID_BITS : TOO_WIDE;
    const u32 sum = sum_to_lane(mine);
    u32 at = 0;
    if (threadIdx.x % 32 == 31) at = add_shared(count, sum);
    at = __shfl_sync(FULL, at, 31) + sum - mine;
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        const u32 to = arc[j] & ENTRY_ID_MASK, more = won >> j & 1 ? arc[j] >> ENTRY_ID_BITS : 0;
        if (more >= MOST_PLANES) continue;
        for (u32 k = 1; k <= more; k++, at++)
            if (at < NARROW_ARCS) store_shared(next + at * 16, __ldg(fixed.arcs + __ldg(fixed.planes + k) + to));
    }
}

// Claims the rows that four arcs of each lane lead to (NONE: no arc), and puts their own arcs into
// the next frontier. All lanes of a warp call it.
template <bool IN_SHARED>
__device__ __forceinline__ void claim_four(const FixedRows& fixed, LEVEL* levels, u32* visited, const Board& board,
                                           uint4 four, u32 level) {
    const u32 lane = threadIdx.x % 32, below = (1u << lane) - 1;
    const u32 arc[4] = {four.x, four.y, four.z, four.w};
    u32 taken[4], more = 0, arcs = 0, total = 0, at[4];
    uint4 entry[4];
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        const u32 to = arc[j] & ENTRY_ID_MASK;
        if (IN_SHARED) taken[j] = or_shared(arc[j], board.visited_bits + word_at(to) * 4, bit_at(to));
        else taken[j] = arc[j] != NONE ? atomicOr(visited + word_at(to), bit_at(to)) : FULL;
        arcs += arc[j] != NONE;
    }
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        const u32 to = arc[j] & ENTRY_ID_MASK;
        taken[j] &= bit_at(to);
        entry[j] = load_if_zero(taken[j], fixed.arcs + to); // not waited for before its position is known
    }
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        const u32 winners = __ballot_sync(FULL, !taken[j]);
        at[j] = total + __popc(winners & below);
        total += __popc(winners);
    }
    const u32 looked = __reduce_add_sync(FULL, arcs);
    u32 base = 0; // three sums at once, by three lanes
    if (lane < 3) base = add_shared(board.count + lane * 4, lane == 2 ? looked : total);
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        if (!taken[j]) levels[arc[j] & ENTRY_ID_MASK] = (LEVEL)level;
        more |= taken[j] ? 0 : arc[j] >> ENTRY_ID_BITS;
    }
    base = __shfl_sync(FULL, base, 0);
#pragma unroll
    for (u32 j = 0; j < 4; j++)
        if (!taken[j] && base + at[j] < NARROW_ARCS) store_shared(board.next + (base + at[j]) * 16, entry[j]);
    if (!__any_sync(FULL, more)) return;
    const u32 won = !taken[0] | !taken[1] << 1 | !taken[2] << 2 | !taken[3] << 3;
    more_planes(fixed, four, won, board.next, board.count);
}

// The frontier queue[head:tail) as entries.
__device__ __forceinline__ void narrow_front(const Graph& g, const Search& s, const FixedRows& fixed,
                                             const Progress& start, uint4* next, Narrow* count) {
    for (u32 i = start.head + threadIdx.x; i < start.tail; i += blockDim.x) {
        const u32 row = __ldcg(s.queue.rows + i);
        const u64 arcs = out_degree(g, row);
        const u32 entries = arcs ? (u32)min((arcs + 3) / 4, (u64)MOST_PLANES + 1) : 1;
        const u32 at = atomicAdd(&count->entries, entries > MOST_PLANES ? TOO_WIDE : entries);
        for (u32 k = 0; k < entries && entries <= MOST_PLANES; k++)
            if (at + k < NARROW_ARCS) next[at + k] = __ldg(fixed.arcs + __ldg(fixed.planes + k) + row);
    }
}

// What narrow levels have passed: the last of them, rows found in all and in the last, arcs gone through.
struct Passed {
    u32 level, rows, last;
    u64 arcs;
};

// Levels behind `level`, from the first frontier on, which has so many entries.
template <bool IN_SHARED>
__device__ __forceinline__ Passed narrow_rounds(const FixedRows fixed, LEVEL* levels, u32* visited, u32 entries,
                                                u32 level, LevelTrace* trace, u32 traced_levels, u64 started) {
    const u32 lane = threadIdx.x % 32, begin = shared_address(shared);
    const u32 counts = begin + 2 * NARROW_ARCS * 16;
    Board board = {begin, begin + NARROW_ARCS * 16, counts, counts + 48};
    Passed passed = {level, 0, 0, 0};
    while (entries <= NARROW_ARCS) {
        level++;
        for (u32 i = threadIdx.x; i - lane < entries; i += blockDim.x) {
            uint4 four = make_uint4(NONE, NONE, NONE, NONE);
            if (i < entries) four = load_shared(board.now + i * 16);
            claim_four<IN_SHARED>(fixed, levels, visited, board, four, level);
        }
        __syncthreads(); // the only one of a level
        const uint4 found = load_shared(board.count);
        if (threadIdx.x == 0) { // all have read what is cleared, and none adds to it before the next barrier
            store_shared(board.count == counts ? counts + 32 : board.count - 16, make_uint4(0, 0, 0, 0));
            if (level < traced_levels) {
                LevelTrace* c = trace + level;
                c->found = found.y;
                c->pushed = found.z;
                c->direction = PUSH;
#ifdef TRACE
                c->elapsed = nanoseconds() - started;
#endif
            }
        }
        passed = {level, passed.rows + found.y, found.y, passed.arcs + found.z};
        if (!found.y || level == LAST_LEVEL) break;
        entries = found.x;
        board.count = board.count == counts + 32 ? counts : board.count + 16;
        const u32 front = board.now;
        board.now = board.next;
        board.next = front;
    }
    return passed;
}

// Continues for as many levels as are narrow, and writes down what they cost and where it has arrived:
// nowhere where a row of the frontier is too wide. The frontier is queue[head:tail). Of what is found
// only levels are written.
__device__ __noinline__ void narrow_levels(const Graph g, const Search s, const FixedRows fixed, Progress start,
                                           Progress* arrived, Slot* own, LevelTrace* trace, u32 traced_levels,
                                           u64 started) {
    Narrow* const counts = (Narrow*)(shared + 2 * NARROW_ARCS);
    uint4* const visited_bits = shared + 2 * NARROW_ARCS + 3;
    const bool fits = g.quads <= SHARED_QUADS;
    if (threadIdx.x < 3) counts[threadIdx.x] = Narrow{};
    if (fits)
        for (u32 q = threadIdx.x; q < g.quads; q += blockDim.x) visited_bits[q] = __ldcg((const uint4*)s.visited + q);
    __syncthreads();
    narrow_front(g, s, fixed, start, shared, counts + 2);
    __syncthreads();
    const u32 entries = counts[2].entries;
    const Passed passed =
        fits ? narrow_rounds<true>(fixed, s.level, s.visited, entries, start.level, trace, traced_levels, started)
             : narrow_rounds<false>(fixed, s.level, s.visited, entries, start.level, trace, traced_levels, started);
    if (fits)
        for (u32 q = threadIdx.x; q < g.quads; q += blockDim.x) ((uint4*)s.visited)[q] = visited_bits[q];
    if (passed.level != start.level) {
        start.level = passed.level;
        start.tail += passed.rows;
        start.head = start.tail - passed.last;
        start.found = passed.last;
        start.unvisited -= passed.rows;
        // Arcs are taken off when they are gone through; those of the first level were off already.
        start.unvisited_arcs += start.arcs;
        start.unvisited_arcs -= min(passed.arcs, start.unvisited_arcs);
    }
    if (threadIdx.x == 0) {
        *own = Slot{};
        *arrived = start;
    }
}

// The smallest neighbour one level up.
__device__ __forceinline__ u32 parent_by_level(const Graph& g, const Search& s, u32 v, u32 level) {
    const u32 head = __ldg(g.head + v);
    uint4 more = make_uint4(NONE, NONE, NONE, NONE);
    if (v < g.longer1) more = __ldg(g.heads + v);
    const u32 of[5] = {head, more.x, more.y, more.z, more.w};
    u32 parent = NONE;
    LEVEL up[5];
#pragma unroll
    for (u32 j = 0; j < 5; j++) up[j] = of[j] != NONE ? __ldcg(s.level + of[j]) : UNREACHED;
#pragma unroll
    for (u32 j = 5; j-- > 0;)
        if (of[j] != NONE && up[j] == (LEVEL)(level - 1)) parent = of[j];
    if (parent == NONE && v < g.longer5) {
        const u64 end = __ldg(g.in_offsets + v + 1);
        for (u64 at = __ldg(g.in_offsets + v) + 5; parent == NONE && at < end; at++) {
            const u32 u = __ldg(g.in_neighbors + at);
            if (__ldcg(s.level + u) == (LEVEL)(level - 1)) parent = u;
        }
    }
    return parent;
}

// Enters the parents, by name, of all rows that narrow levels behind level `from` have found; and the
// rows in the queue behind `tail`, the last level's in the end, where they are wanted. All levels but
// those of the rows that are found are UNREACHED.
__device__ __noinline__ void settle_narrow(const Graph g, const Search s, u32 from, const Progress place, u32 tail,
                                           bool wanted, Slot* own) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 v = thread; v - threadIdx.x % 32 < g.rows; v += threads) {
        const LEVEL level = v < g.rows ? __ldcg(s.level + v) : UNREACHED;
        const bool found = level != UNREACHED && (u32)level > from && (u32)level <= place.level;
        if (found) s.parent[v] = name_of(g, parent_by_level(g, s, v, level));
        if (!wanted) continue;
        const bool last = found && (u32)level == place.level;
        append(s.queue.rows, &own->open, tail, found && !last, v);
        enter(s.queue, &own->queued, place.head, last, [&](u32) { return v; }, [&](u32) { return out_degree(g, v); });
    }
}
