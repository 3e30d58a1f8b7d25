// BFS bottom-up: rows look for the first of their neighbours that the frontier holds.
#pragma once
#include "bfs_graph.cuh"

__device__ __forceinline__ void set_found(const Search& s, u32 vertex, u32 level, u32 parent) {
    s.level[vertex] = (LEVEL)level;
    s.parent[vertex] = parent;
}

// Looks at four neighbours in their order; the first member of the frontier, or NONE.
__device__ __forceinline__ u32 first_of(const Front& front, uint4 u, Tally& tally) {
    u32 x = word_of(front, u.x), y = word_of(front, u.y), z = word_of(front, u.z), w = word_of(front, u.w);
    u32 member = w & bit_of(u.w) ? u.w : NONE;
    if (z & bit_of(u.z)) member = u.z;
    if (y & bit_of(u.y)) member = u.y;
    if (x & bit_of(u.x)) member = u.x;
#ifdef COUNT
    tally.examined += (u.x != NONE) + (u.y != NONE && u.y <= member) + (u.z != NONE && u.z <= member) +
                      (u.w != NONE && u.w <= member);
#endif
    return member;
}

// What stands behind a row's heads: each thread looks at some arcs of a row of its own (NONE: no
// row); the rest of a long row is left for later, with `parent` ready to take the smallest.
// Returns the first member of the frontier, or NONE.
__device__ __forceinline__ u32 scan_tails(const Graph& g, const Search& s, const Front& front, Slot* slot, u32 v,
                                          Tally& tally) {
    u32 lane = threadIdx.x % 32, member = NONE, count = 0;
    if (v != NONE) {
        u64 at = __ldg(g.in_offsets + v) + HEADS, last = __ldg(g.in_offsets + v + 1), stop = min(last, at + LANE_ARCS);
        while (at < stop && member == NONE) {
            uint4 u;
            u.x = __ldg(g.in_neighbors + at);
            u.y = at + 1 < last ? __ldg(g.in_neighbors + at + 1) : NONE;
            u.z = at + 2 < last ? __ldg(g.in_neighbors + at + 2) : NONE;
            u.w = at + 3 < last ? __ldg(g.in_neighbors + at + 3) : NONE;
            member = first_of(front, u, tally);
            at += 4;
        }
        if (member == NONE && at < last) {
            count = (u32)((last - at + STRETCH - 1) / STRETCH);
            s.parent[v] = NONE;
        }
    }
    if (__any_sync(FULL, count)) {
        u32 sum = sum_to_lane(count), base = 0;
        if (lane == 31) base = atomicAdd(&slot->stretches, sum);
        u32 at = __shfl_sync(FULL, base, 31) + sum - count;
        for (u32 k = 0; k < count; k++) s.stretches[at + k] = (u64)v << 32 | k;
    }
    return member;
}

// A warp's room in shared memory: rows of a unit, counted from its first, and words of bits.
struct Room {
    u16 rows[UNIT * 128];
    u32 got[UNIT * 4];
};
#ifdef ROOM_BYTES
static_assert(sizeof(Room) == ROOM_BYTES, "the caller sizes shared memory by it");
#endif

// First neighbours of a quad's open rows, a row a lane and word.
struct Heads {
    u32 row[4];
};

__device__ __forceinline__ Heads load_heads(const Graph& g, u32 unit, uint4 seen, u32 quad) {
    const u32 lane = threadIdx.x % 32, first = (unit * UNIT + quad) * 128 + lane;
    const u32 open[4] = {~__shfl_sync(FULL, seen.x, quad), ~__shfl_sync(FULL, seen.y, quad),
                         ~__shfl_sync(FULL, seen.z, quad), ~__shfl_sync(FULL, seen.w, quad)};
    Heads heads;
#pragma unroll
    for (int j = 0; j < 4; j++) heads.row[j] = open[j] >> lane & 1 ? __ldcs(g.head + first + 32 * j) : NONE;
    return heads;
}

// First neighbours of a quad; rows that go on are kept in the room. Returns how many there are.
__device__ __forceinline__ u32 pull_quad(const Graph& g, const Search& s, const Front& front, const Heads& heads,
                                         u32 unit, u32 quad, u32 level, Room& room, u32 kept, Tally& tally) {
    const u32 lane = threadIdx.x % 32, first = (unit * UNIT + quad) * 128 + lane;
    u32 words[4], original[4], got[4];
#pragma unroll
    for (int j = 0; j < 4; j++) words[j] = word_of(front, heads.row[j]);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const bool hit = words[j] & bit_of(heads.row[j]);
#ifdef COUNT
        tally.examined += heads.row[j] != NONE;
#endif
        original[j] = hit ? __ldcs(g.head_original + first + 32 * j) : 0;
        got[j] = __ballot_sync(FULL, hit);
        const u32 waiting = __ballot_sync(FULL, !hit && heads.row[j] != NONE && first + 32 * j < g.longer1);
        if (waiting >> lane & 1) room.rows[kept + __popc(waiting & ((1u << lane) - 1))] = quad * 128 + 32 * j + lane;
        kept += __popc(waiting);
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (got[j] >> lane & 1) set_found(s, first + 32 * j, level, original[j]);
    if (lane == 0) ((uint4*)room.got)[quad] = make_uint4(got[0], got[1], got[2], got[3]);
    return kept;
}

// First neighbours of a unit's open rows where those are few: packed, two a lane.
__device__ __forceinline__ u32 pull_sparse(const Graph& g, const Search& s, const Front& front, u32 unit, uint4 seen,
                                           u32 level, Room& room, Tally& tally) {
    const u32 lane = threadIdx.x % 32, base = unit * UNIT * 128;
    const u32 open[4] = {~seen.x, ~seen.y, ~seen.z, ~seen.w};
    const u32 mine = __popc(open[0]) + __popc(open[1]) + __popc(open[2]) + __popc(open[3]);
    const u32 sum = sum_to_lane(mine);
    u32 at = sum - mine, kept = 0;
    const u32 total = __shfl_sync(FULL, sum, 31);
#pragma unroll
    for (int j = 0; j < 4; j++)
        for (u32 rest = open[j]; rest; rest &= rest - 1) room.rows[at++] = lane * 128 + 32 * j + __ffs(rest) - 1;
    room.got[lane] = 0;
    __syncwarp();
    for (u32 first = 0; first < total; first += 64) {
        u32 row[2], h[2], words[2], original[2];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            row[j] = first + 32 * j + lane < total ? room.rows[first + 32 * j + lane] : NONE;
            h[j] = row[j] != NONE ? __ldcs(g.head + base + row[j]) : NONE;
        }
        __syncwarp();
#pragma unroll
        for (int j = 0; j < 2; j++) words[j] = word_of(front, h[j]);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const bool hit = words[j] & bit_of(h[j]);
#ifdef COUNT
            tally.examined += h[j] != NONE;
#endif
            original[j] = hit ? __ldcs(g.head_original + base + row[j]) : 0;
            const u32 waiting = __ballot_sync(FULL, !hit && h[j] != NONE && base + row[j] < g.longer1);
            if (waiting >> lane & 1) room.rows[kept + __popc(waiting & ((1u << lane) - 1))] = row[j];
            kept += __popc(waiting);
            if (hit) atomicOr(room.got + (row[j] >> 5), bit_of(row[j]));
            else row[j] = NONE;
        }
#pragma unroll
        for (int j = 0; j < 2; j++)
            if (row[j] != NONE) set_found(s, base + row[j], level, original[j]);
        __syncwarp();
    }
    return kept;
}

// The heads behind the first, and on, for `kept` rows of the room. Loads for the next 32 rows are
// under way while these are looked at; so are the parents' original ids.
__device__ __forceinline__ void pull_kept(const Graph& g, const Search& s, const Front& front, Slot* slot, u32 unit,
                                          u32 level, Room& room, u32 kept, Tally& tally) {
    const u32 lane = threadIdx.x % 32, base = unit * UNIT * 128;
    const uint4 none = make_uint4(NONE, NONE, NONE, NONE);
    u32 v = lane < kept ? base + room.rows[lane] : NONE;
    uint4 four = v < g.longer1 ? __ldcs(g.heads + v) : none;
    uint4 last = v < g.longer5 ? __ldcs(g.heads + g.longer1 + v) : none;
    u32 claimed = NONE, parent = 0;
    for (u32 first = 0; first < kept; first += 32) {
        const u32 next_v = first + 32 + lane < kept ? base + room.rows[first + 32 + lane] : NONE;
        const uint4 next_four = next_v < g.longer1 ? __ldcs(g.heads + next_v) : none;
        const uint4 next_last = next_v < g.longer5 ? __ldcs(g.heads + g.longer1 + next_v) : none;
        u32 rest = NONE, member = first_of(front, four, tally);
        if (member == NONE && last.x != NONE) {
            member = first_of(front, last, tally);
            if (member == NONE && last.w != NONE) rest = v;
        }
        if (__any_sync(FULL, rest != NONE)) {
            u32 found = scan_tails(g, s, front, slot, rest, tally);
            if (rest != NONE) member = found;
        }
        if (claimed != NONE) set_found(s, claimed, level, parent);
        claimed = NONE;
        if (member != NONE) {
            claimed = v;
            parent = name_of(g, member);
            atomicOr(room.got + ((v - base) >> 5), bit_of(v));
        }
        v = next_v;
        four = next_four;
        last = next_last;
    }
    if (claimed != NONE) set_found(s, claimed, level, parent);
}

// Asks for the first neighbours of a unit's open rows, a line of 32 a lane.
__device__ __forceinline__ void prefetch_unit(const Graph& g, u32 unit, uint4 seen) {
    u32 lane = threadIdx.x % 32;
    u32 x = __shfl_sync(FULL, seen.x, lane / 4), y = __shfl_sync(FULL, seen.y, lane / 4);
    u32 z = __shfl_sync(FULL, seen.z, lane / 4), w = __shfl_sync(FULL, seen.w, lane / 4);
    u32 word = lane % 4 == 0 ? x : lane % 4 == 1 ? y : lane % 4 == 2 ? z : w;
    if (word != FULL) {
        u32 row = (unit * UNIT * 4 + lane) * 32;
        asm volatile("prefetch.global.L2 [%0];" ::"l"(g.head + row));
        asm volatile("prefetch.global.L2 [%0];" ::"l"(g.head_original + row));
    }
}

__device__ __forceinline__ uint4 load_seen(const Graph& g, const Search& s, u32 unit) {
    u32 own = unit * UNIT + threadIdx.x % 32;
    bool real = threadIdx.x % 32 < UNIT && own < g.quads;
    return real ? __ldcg((const uint4*)s.visited + own) : make_uint4(FULL, FULL, FULL, FULL);
}

// All rows not visited yet, a unit a warp. What comes next is asked for before what is there is
// looked at: the next unit's words and lines, the next quad's first neighbours.
__device__ __forceinline__ void pull_all(const Graph& g, const Search& s, const Front& front, u32* next, Slot* slot,
                                         u32 level, Room& room, Tally& tally) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    uint4 seen = load_seen(g, s, warp);
    for (u32 unit = warp; unit * UNIT < g.quads; unit += warps) {
        const uint4 coming = load_seen(g, s, unit + warps);
        const u32 open = __popc(~seen.x) + __popc(~seen.y) + __popc(~seen.z) + __popc(~seen.w);
        const u32 total = __reduce_add_sync(FULL, open), own = unit * UNIT + lane;
        u32 todo = __ballot_sync(FULL, open != 0), kept = 0;
        if (total < SPARSE) {
            if (total) kept = pull_sparse(g, s, front, unit, seen, level, room, tally);
            prefetch_unit(g, unit + warps, coming);
        } else {
            room.got[lane] = 0;
            __syncwarp();
            Heads heads = load_heads(g, unit, seen, __ffs(todo) - 1);
            prefetch_unit(g, unit + warps, coming);
            while (todo) {
                const u32 quad = __ffs(todo) - 1;
                todo &= todo - 1;
                Heads after = heads;
                if (todo) after = load_heads(g, unit, seen, __ffs(todo) - 1);
                kept = pull_quad(g, s, front, heads, unit, quad, level, room, kept, tally);
                heads = after;
            }
            __syncwarp();
        }
        if (kept) pull_kept(g, s, front, slot, unit, level, room, kept, tally);
        __syncwarp();
        if (lane < UNIT && own < g.quads) {
            const uint4 got = total ? ((uint4*)room.got)[lane] : make_uint4(0, 0, 0, 0);
            ((uint4*)next)[own] = got;
            if (got.x | got.y | got.z | got.w) {
                ((uint4*)s.visited)[own] = make_uint4(seen.x | got.x, seen.y | got.y, seen.z | got.z, seen.w | got.w);
                tally.found += __popc(got.x) + __popc(got.y) + __popc(got.z) + __popc(got.w);
            }
        }
        __syncwarp();
        seen = coming;
    }
}

// The listed rows, as far as they are not visited yet.
__device__ __noinline__ Tally pull_open(const Graph g, const Search s, const Front front, u32* next, Slot* slot,
                                          const u32* open, u32 count, u32 level) {
    Tally tally = {0, 0};
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 first = thread - lane; first < count; first += threads) {
        u32 v = first + lane < count ? __ldcg(open + first + lane) : NONE, member = NONE, rest = NONE;
        if (v != NONE && !(__ldcg(s.visited + (v >> 5)) & bit_of(v))) {
            uint4 none = make_uint4(NONE, NONE, NONE, NONE);
            u32 h = __ldg(g.head + v);
            uint4 four = v < g.longer1 ? __ldg(g.heads + v) : none;
            uint4 last = v < g.longer5 ? __ldg(g.heads + g.longer1 + v) : none;
            if (holds(front, h)) member = h;
            else member = first_of(front, four, tally);
            if (member == NONE && last.x != NONE) {
                member = first_of(front, last, tally);
                if (member == NONE && last.w != NONE) rest = v;
            }
#ifdef COUNT
            tally.examined += h != NONE;
#endif
        }
        if (__any_sync(FULL, rest != NONE)) {
            u32 found = scan_tails(g, s, front, slot, rest, tally);
            if (rest != NONE) member = found;
        }
        if (member != NONE) {
            set_found(s, v, level, name_of(g, member));
            atomicOr(s.visited + (v >> 5), bit_of(v));
            atomicOr(next + (v >> 5), bit_of(v));
            tally.found++;
        }
    }
    return tally;
}

// The stretches of long rows, a warp each; the smallest member of the frontier counts.
__device__ __noinline__ Tally pull_stretches(const Graph g, const Search s, const Front front, u32 count) {
    Tally tally = {0, 0};
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 i = thread / 32; i < count; i += threads / 32) {
        u64 item = __ldcg(s.stretches + i);
        u32 v = (u32)(item >> 32);
        u64 at = __ldg(g.in_offsets + v) + HEADS + LANE_ARCS + (item & NONE) * (u64)STRETCH;
        u64 end = min(at + STRETCH, __ldg(g.in_offsets + v + 1));
        u32 best = __shfl_sync(FULL, __ldcg(s.parent + v), 0), member = NONE; // one value for all lanes
        for (; at < end && member == NONE; at += 128) {
            u32 u[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                u[k] = at + 32 * k + lane < end ? __ldg(g.in_neighbors + at + 32 * k + lane) : NONE;
            if (best < __shfl_sync(FULL, u[0], 0)) break; // an earlier stretch has it
#pragma unroll
            for (int k = 3; k >= 0; k--) {
                u32 hits = __ballot_sync(FULL, holds(front, u[k]));
#ifdef COUNT
                tally.examined += u[k] != NONE;
#endif
                if (hits) member = __shfl_sync(FULL, u[k], __ffs(hits) - 1);
            }
        }
        if (member != NONE && lane == 0) atomicMin(s.parent + v, member);
    }
    return tally;
}

// Claims the long rows that have met the frontier.
__device__ __noinline__ Tally claim_long(const Graph g, const Search s, u32* next, u32 count, u32 level) {
    Tally tally = {0, 0};
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 i = thread; i < count; i += threads) {
        u64 item = __ldcg(s.stretches + i);
        if (item & NONE) continue; // one claim a row
        u32 v = (u32)(item >> 32), member = __ldcg(s.parent + v);
        if (member == NONE) continue;
        set_found(s, v, level, name_of(g, member));
        atomicOr(s.visited + (v >> 5), bit_of(v));
        atomicOr(next + (v >> 5), bit_of(v));
        tally.found++;
    }
    return tally;
}

// What no level has claimed.
__device__ __noinline__ void mark_unreached(const Graph g, const Search s) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = thread % 32;
    for (u32 first = thread - lane; first < g.quads * 4; first += threads) {
        u32 word = first + lane, open = word < g.quads * 4 ? ~__ldcg(s.visited + word) : 0;
        for (u32 rest = __ballot_sync(FULL, open != 0); rest; rest &= rest - 1) {
            u32 which = __ffs(rest) - 1;
            if (__shfl_sync(FULL, open, which) >> lane & 1) set_found(s, (first + which) * 32 + lane, UNREACHED, NONE);
        }
    }
}
