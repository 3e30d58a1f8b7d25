// Push-pull SSSP of one whole graph in one cooperative launch, weights and distances float32.
//
// Rows are light-first. From the root, arcs are relaxed below a bound that rises until the core of
// hubs is settled (label-correcting rounds; a row remembers how far it has gone). All other rows
// then pull along their lightest arcs and stop at the first that can not help. What the second pull
// changed is pushed to the end. Distances are the greatest fixed point, so no order matters; parents
// follow from them by decision 7.
//
// Distances are float32 bit patterns, which order like unsigned integers from 0 to infinity.
#include "queue.cuh"

#define UNREACHED 0x7F800000u

// Pull once one in this many of the arcs has been examined by pushing.
#ifndef ENOUGH_PUSHED
#define ENOUGH_PUSHED 2000
#endif
// Quads (128 rows) that a warp takes at a time: 1, 2 or 4, as shared memory allows.
#ifndef UNIT
#define UNIT 4u
#endif
// Arcs of a row that a warp relaxes before the rest is cut into stretches for others.
#ifndef STRETCH
#define STRETCH 64u
#endif

struct Slot {
    u64 examined;
    u64 again;   // vertices improved that had been reached before
    u64 arcs;    // out-arcs of the vertices reached, or changed
    u64 queued;  // as `enter` wants it
    u32 count;   // entries of the next queue, or rows changed
    u32 reached; // vertices reached for the first time
    u32 stretches;
    u32 least;   // complement of the smallest distance
    u32 most;    // largest distance
};

struct State {
    Barrier barrier;
    u32 passes, rounds, raises, inner;
    u64 unresolved; // reached rows that no neighbour gives a parent: out- and in-rows differ
    u64 phase[4]; // arcs examined: push, pull, finish, parents
    u64 stamp[8];
    Slot slot[4];
};

struct Graph {
    u32 rows, quads;
    const u64* out_offsets;
    const u32* out_neighbors;
    const float* out_weights;
    const float* lightest; // first out-weight of row v at v << lightest_shift; infinite where none is
    u32 lightest_shift;
    const u64* in_offsets;
    const u32* in_neighbors;
    const float* in_weights;
    const uint2* head;    // first neighbour and weight of each row; infinite weight where none is
    const float* second;  // (longer1,): second weight
    const uint4* pair;    // (longer1,): second and third neighbour and weight
    const uint4* pair2;   // (longer3,): fourth and fifth
    u32 longer1, longer3; // rows from these on have no second, no fourth arc
    u32 hubs;             // rows below are long: a warp each looks at them (a multiple of a unit)
    const u32* original_of; // null: parents are given as internal ids
};

struct Search {
    u32* parent;    // also the list of vertices in the order they were reached, while pushing
    u32* distance;
    u64* record;    // distance << 32 | arcs relaxed with it; also scratch of the parents
    u32* marks;     // vertices in one queue; rows changed by a pull; rows on plateaus
    u32* resolved;  // vertices in the other queue; rows that have a parent among the inner vertices
    Queue queue;    // its two arrays are also the queues of this round and the next
    u64* stretches; // row << 32 | number of the stretch
    u32 stretch_room;
};

struct Tally {
    u64 examined, again, arcs;
};

__device__ __forceinline__ u32 sum_of(u32 distance, float weight) {
    return __float_as_uint(__fadd_rn(__uint_as_float(distance), weight));
}

// What an internal id is called in the answer.
__device__ __forceinline__ u32 name_of(const Graph& g, u32 vertex) {
    return g.original_of ? __ldg(g.original_of + vertex) : vertex;
}

__device__ __forceinline__ u64 out_degree(const Graph& g, u32 vertex) {
    return __ldg(g.out_offsets + vertex + 1) - __ldg(g.out_offsets + vertex);
}

// Arcs of a row that were relaxed with the distance it has.
__device__ __forceinline__ u64 relaxed_arcs(const Search& s, u32 vertex, u32 distance) {
    const u64 record = __ldcg(s.record + vertex);
    return (u32)(record >> 32) == distance ? record & NONE : 0;
}

// What a round reads and what it fills: the next queue with its marks, and the list of vertices in
// the order they were reached (`parent`), if `note`.
struct Wave {
    const u32* queue;
    u32* queue_marks;
    u32* next;
    u32* next_marks;
    u32 count, reached, bound;
    bool note;
};

// Appends the row of each lane that `takes` to a list; all lanes of a warp call it.
__device__ __forceinline__ void append(u32* list, u32* count, u32 tail, bool takes, u32 row) {
    const u32 lane = threadIdx.x % 32, takers = __ballot_sync(FULL, takes);
    if (!takers) return;
    u32 at = 0;
    if (lane == 0) at = atomicAdd(count, __popc(takers));
    at = __shfl_sync(FULL, at, 0) + __popc(takers & ((1u << lane) - 1));
    if (takes) list[tail + at] = row;
}

// Relaxes an arc to `to` (NONE: none); what can go on below the bound enters the next queue, and
// what is reached for the first time is noted. All lanes of a warp call it.
__device__ __forceinline__ void improve(const Graph& g, const Search& s, Slot* slot, const Wave& wave, u32 to,
                                        u32 candidate, Tally& tally) {
    bool fresh = false, wakes = false;
    if (to != NONE && __ldcg(s.distance + to) > candidate) {
        const u32 before = atomicMin(s.distance + to, candidate);
        if (before > candidate) {
            s.record[to] = ~0ull;
            fresh = before == UNREACHED;
            if (!fresh) tally.again++;
            else if (wave.note) tally.arcs += out_degree(g, to);
            if (sum_of(candidate, __ldg(g.lightest + ((u64)to << g.lightest_shift))) <= wave.bound)
                wakes = !(atomicOr(wave.next_marks + (to >> 5), bit_of(to)) & bit_of(to));
        }
    }
    append(wave.next, &slot->count, 0, wakes, to);
    if (wave.note) append(s.parent, &slot->reached, wave.reached, fresh, to);
}

// Arcs of a row from `at` on, up to `end`, while they stay below the bound; returns where it stopped.
__device__ __forceinline__ u64 relax_arcs(const Graph& g, const Search& s, Slot* slot, const Wave& wave, u32 from,
                                          u32 distance, u64 at, u64 end, Tally& tally) {
    const u32 lane = threadIdx.x % 32;
    const u64 first = __ldg(g.out_offsets + from);
    for (; at < end; at += 32) {
        const bool real = at + lane < end;
        const u32 to = real ? __ldg(g.out_neighbors + first + at + lane) : NONE;
        const u32 candidate = real ? sum_of(distance, __ldg(g.out_weights + first + at + lane)) : NONE;
        const bool takes = candidate <= wave.bound;
        const u32 below = __ballot_sync(FULL, takes);
        tally.examined += takes;
        improve(g, s, slot, wave, takes ? to : NONE, candidate, tally);
        if (below != FULL) return at + __popc(below);
    }
    return end;
}

// First arc of a row from `low` on whose candidate is above the bound, by bisection on 32 places.
__device__ __forceinline__ u64 end_below(const Graph& g, u64 first, u64 low, u64 high, u32 distance, u32 bound) {
    const u32 lane = threadIdx.x % 32;
    while (low < high) {
        const u64 step = (high - low + 31) / 32, place = low + step * lane;
        const bool takes = place < high && sum_of(distance, __ldg(g.out_weights + first + place)) <= bound;
        const u32 below = __popc(__ballot_sync(FULL, takes));
        if (below == 0) return low;
        if (step == 1) return low + below;
        high = min(high, low + step * below);
        low = low + step * (below - 1) + 1;
    }
    return low;
}

// One round: every queued row relaxes its arcs below the bound, a warp each; long stretches are left
// for `relax_stretches`.
__device__ __noinline__ Tally relax_queue(const Graph g, const Search s, Slot* slot, const Wave wave) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    Tally tally = {0, 0, 0};
    for (u32 i = warp; i < wave.count; i += warps) {
        const u32 u = __ldcg(wave.queue + i);
        if (lane == 0) atomicAnd(wave.queue_marks + (u >> 5), ~bit_of(u));
        const u32 d = __shfl_sync(FULL, __ldcg(s.distance + u), 0); // others may be improving it
        const u64 degree = out_degree(g, u);
        u64 at = relaxed_arcs(s, u, d);
        const u64 stop = min(degree, (at / STRETCH + 1) * STRETCH);
        at = relax_arcs(g, s, slot, wave, u, d, at, stop, tally);
        if (at == stop && stop < degree) {
            at = end_below(g, __ldg(g.out_offsets + u), stop, degree, d, wave.bound);
            const u32 wanted = (u32)((at - stop + STRETCH - 1) / STRETCH);
            u32 base = 0;
            if (lane == 0 && wanted) base = atomicAdd(&slot->stretches, wanted);
            base = __shfl_sync(FULL, base, 0);
            for (u32 k = lane; k < wanted; k += 32)
                if (base + k < s.stretch_room) s.stretches[base + k] = (u64)u << 32 | (stop / STRETCH + k);
            for (u32 k = s.stretch_room > base ? s.stretch_room - base : 0; k < wanted; k++) // no room
                relax_arcs(g, s, slot, wave, u, d, stop + (u64)k * STRETCH,
                           min(degree, stop + (u64)(k + 1) * STRETCH), tally);
        }
        if (lane == 0) s.record[u] = (u64)d << 32 | at;
    }
    return tally;
}

__device__ __noinline__ Tally relax_stretches(const Graph g, const Search s, Slot* slot, const Wave wave, u32 count) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    Tally tally = {0, 0, 0};
    for (u32 i = warp; i < min(count, s.stretch_room); i += warps) {
        const u64 item = __ldcg(s.stretches + i);
        const u32 u = (u32)(item >> 32);
        const u64 at = (item & NONE) * STRETCH, end = min(out_degree(g, u), at + STRETCH);
        // If the distance has improved since, the row is in the next queue.
        const u32 d = __shfl_sync(FULL, __ldcg(s.distance + u), 0);
        relax_arcs(g, s, slot, wave, u, d, at, end, tally);
    }
    return tally;
}

// Smallest candidate of a reached vertex that was not taken yet.
__device__ __forceinline__ u32 next_candidate(const Graph& g, const Search& s, u32 u) {
    const u32 d = __ldcg(s.distance + u);
    const u64 at = __ldg(g.out_offsets + u) + relaxed_arcs(s, u, d);
    return at < __ldg(g.out_offsets + u + 1) ? sum_of(d, __ldg(g.out_weights + at)) : UNREACHED;
}

__device__ __noinline__ u32 smallest_candidate(const Graph g, const Search s, u32 reached) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    u32 least = UNREACHED;
    for (u32 i = thread; i < reached; i += threads) least = min(least, next_candidate(g, s, __ldcg(s.parent + i)));
    return least;
}

__device__ __noinline__ void wake(const Graph g, const Search s, Slot* slot, u32* next, u32* next_marks, u32 reached,
                                  u32 bound) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 first = thread - lane; first < reached; first += threads) {
        u32 u = NONE;
        if (first + lane < reached) u = __ldcg(s.parent + first + lane);
        const bool wakes = u != NONE && next_candidate(g, s, u) <= bound;
        if (wakes) atomicOr(next_marks + (u >> 5), bit_of(u));
        append(next, &slot->count, 0, wakes, u);
    }
}

// Enters the first `count` reached vertices with the arcs they have not relaxed, or with all.
__device__ __noinline__ void enter_inner(const Graph g, const Search s, Slot* slot, u32 count, bool all) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 first = thread - lane; first < count; first += threads) {
        const bool real = first + lane < count;
        const u32 u = real ? __ldcg(s.parent + first + lane) : 0;
        const u64 arcs = real ? out_degree(g, u) - (all ? 0 : relaxed_arcs(s, u, __ldcg(s.distance + u))) : 0;
        enter(s.queue, &slot->queued, 0, real ? 1 : 0, [&](u32) { return u; }, [&](u32) { return arcs; });
    }
}

// Relaxes what the inner vertices left above the bound, waking nobody.
__device__ __noinline__ void push_inner(const Graph g, const Search s, u32 count, u32 arcs) {
    over_arcs(s.queue, 0, count, arcs, [&](u32 entry, u32 k) {
        if (entry == NONE) return;
        const u32 u = __ldcg(s.queue.rows + entry), d = __ldcg(s.distance + u);
        const u64 at = __ldg(g.out_offsets + u) + relaxed_arcs(s, u, d) + k;
        if (at >= __ldg(g.out_offsets + u + 1)) return;
        const u32 v = __ldg(g.out_neighbors + at), candidate = sum_of(d, __ldg(g.out_weights + at));
        if (__ldcg(s.distance + v) > candidate) atomicMin(s.distance + v, candidate);
    });
}

// A warp's room in shared memory: rows of a unit that go on, counted from its first, what they have
// so far, and words of bits.
struct Room {
    u16 rows[UNIT * 128];
    u32 best[UNIT * 128];
    u32 parent[UNIT * 128];
    u32 got[32];
};
#ifdef ROOM_BYTES
static_assert(sizeof(Room) == ROOM_BYTES, "the caller sizes shared memory by it");
#endif

struct Pulled {
    u64 examined, arcs;
    u32 changed, reached, least, most;
};

// A pair of arcs of a row that has `best`; tells whether the row may go on behind them.
__device__ __forceinline__ bool pull_pair(const Search& s, uint4 pair, u32 floor, u32& best, u64& examined) {
    const float w = __uint_as_float(pair.y), x = __uint_as_float(pair.w);
    const bool one = sum_of(floor, w) < best, two = sum_of(floor, x) < best;
    const u32 a = one ? __ldcg(s.distance + pair.x) : UNREACHED, b = two ? __ldcg(s.distance + pair.z) : UNREACHED;
    examined += one + two;
    best = min(best, min(sum_of(a, w), sum_of(b, x)));
    return sum_of(floor, x) < best;
}

// One pass over the rows farther than `final`. No arc of weight w helps a row at `best` unless
// floor + w < best, and rows ascend by weight.
//
// A row's distance is written by its own warp alone, by a plain 32-bit store, while other warps
// read it. That race is wanted: they see the old distance or the new one, and both are lengths of
// real paths. Who saw the old one is looked at again, for a pass that changed anything is followed
// by another, or by a push from what it changed.
__device__ __forceinline__ void pull_pass(const Graph& g, const Search& s, u32 final, u32 floor, bool count_arcs,
                                          Room& room, Pulled& sum) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    const uint4 none = make_uint4(0, UNREACHED, 0, UNREACHED);
    for (u32 v = warp; v < g.hubs; v += warps) {
        const u32 before = __shfl_sync(FULL, __ldcg(s.distance + v), 0);
        if (before != UNREACHED) sum.most = max(sum.most, before);
        if (lane == 0) atomicAnd(s.marks + (v >> 5), ~bit_of(v));
        if (before <= final) continue;
        u32 best = before;
        const u64 end = __ldg(g.in_offsets + v + 1);
        for (u64 at = __ldg(g.in_offsets + v) + lane; at - lane < end; at += 32) {
            const float w = at < end ? __ldg(g.in_weights + at) : __uint_as_float(UNREACHED);
            const bool goes = sum_of(floor, w) < best;
            const u32 candidate = goes ? sum_of(__ldcg(s.distance + __ldg(g.in_neighbors + at)), w) : UNREACHED;
            sum.examined += goes;
            best = min(best, __reduce_min_sync(FULL, candidate));
            if (!__all_sync(FULL, goes)) break;
        }
        if (lane == 0 && best < before) {
            __stcg(s.distance + v, best);
            atomicOr(s.marks + (v >> 5), bit_of(v));
            sum.changed++;
            sum.reached += before == UNREACHED;
            sum.least = min(sum.least, best);
            sum.most = max(sum.most, best);
            if (count_arcs) sum.arcs += out_degree(g, v);
        }
    }
    for (u32 unit = g.hubs / (UNIT * 128) + warp; unit * UNIT < g.quads; unit += warps) {
        const u32 base = unit * UNIT * 128;
        u32 kept = 0;
        if (lane < UNIT * 4) room.got[lane] = 0;
        __syncwarp();
        for (u32 quad = 0; quad < UNIT && unit * UNIT + quad < g.quads; quad++) {
            const u32 first = base + quad * 128 + lane;
            u32 before[4], best[4];
            uint2 h[4];
            float second[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const u32 v = first + 32 * j;
                before[j] = v < g.rows ? __ldcg(s.distance + v) : 0;
                h[j] = v < g.rows ? __ldcs(g.head + v) : make_uint2(0, UNREACHED);
                second[j] = v < g.longer1 ? __ldcs(g.second + v) : __uint_as_float(UNREACHED);
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const bool goes = before[j] > final && sum_of(floor, __uint_as_float(h[j].y)) < before[j];
                best[j] = goes ? __ldcg(s.distance + h[j].x) : UNREACHED;
                sum.examined += goes;
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const u32 v = first + 32 * j;
                best[j] = min(before[j], sum_of(best[j], __uint_as_float(h[j].y)));
                const bool better = best[j] < before[j], goes = before[j] > final && sum_of(floor, second[j]) < best[j];
                if (better) {
                    __stcg(s.distance + v, best[j]);
                    sum.reached += before[j] == UNREACHED;
                    sum.least = min(sum.least, best[j]);
                }
                if (best[j] != UNREACHED) sum.most = max(sum.most, best[j]);
                const u32 improved = __ballot_sync(FULL, better), waiting = __ballot_sync(FULL, goes);
                if (lane == 0) room.got[quad * 4 + j] = improved;
                if (goes) {
                    const u32 at = kept + __popc(waiting & ((1u << lane) - 1));
                    room.rows[at] = v - base;
                    room.best[at] = best[j];
                }
                kept += __popc(waiting);
            }
        }
        __syncwarp();
        u32 v = lane < kept ? base + room.rows[lane] : NONE;
        uint4 pair = v != NONE ? __ldcs(g.pair + v) : none;
        for (u32 first = 0; first < kept; first += 32) {
            const u32 next_v = first + 32 + lane < kept ? base + room.rows[first + 32 + lane] : NONE;
            const uint4 next_pair = next_v != NONE ? __ldcs(g.pair + next_v) : none;
            if (v != NONE) {
                const u32 before = room.best[first + lane];
                u32 best = before;
                bool goes = pull_pair(s, pair, floor, best, sum.examined) && v < g.longer3;
                if (goes) goes = pull_pair(s, __ldcs(g.pair2 + v), floor, best, sum.examined);
                if (goes) {
                    u64 at = __ldg(g.in_offsets + v) + 5;
                    const u64 end = __ldg(g.in_offsets + v + 1);
                    for (; at < end; at++) {
                        const float w = __ldg(g.in_weights + at);
                        if (sum_of(floor, w) >= best) break;
                        best = min(best, sum_of(__ldcg(s.distance + __ldg(g.in_neighbors + at)), w));
                        sum.examined++;
                    }
                }
                if (best < before) {
                    __stcg(s.distance + v, best);
                    if (!(atomicOr(room.got + ((v - base) >> 5), bit_of(v)) & bit_of(v))) sum.reached += before == UNREACHED;
                    sum.least = min(sum.least, best);
                    sum.most = max(sum.most, best);
                }
            }
            v = next_v;
            pair = next_pair;
        }
        __syncwarp();
        const u32 word = unit * UNIT * 4 + lane;
        if (lane < UNIT * 4 && word < g.quads * 4) {
            u32 bits = room.got[lane];
            s.marks[word] = bits;
            sum.changed += __popc(bits);
            if (count_arcs)
                for (; bits; bits &= bits - 1) sum.arcs += out_degree(g, word * 32 + __ffs(bits) - 1);
        }
        __syncwarp();
    }
}

// Lists the marked rows.
__device__ __noinline__ void list_marked(const Graph g, const Search s, Slot* slot, u32* next) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 word = thread; word - threadIdx.x % 32 < g.quads * 4; word += threads) {
        u32 bits = word < g.quads * 4 ? __ldcg(s.marks + word) : 0;
        const u32 mine = __popc(bits), sum = sum_to_lane(mine);
        u32 base = 0;
        if (threadIdx.x % 32 == 31 && sum) base = atomicAdd(&slot->count, sum);
        u32 at = __shfl_sync(FULL, base, 31) + sum - mine;
        for (; bits; bits &= bits - 1) {
            const u32 v = word * 32 + __ffs(bits) - 1;
            next[at++] = v;
            s.record[v] = ~0ull;
        }
    }
}

// One of three steps by which the inner vertices offer themselves as parents along all their arcs:
// forget, take the nearest (ties: the smallest id), tell who it was.
__device__ __noinline__ void offer_inner(const Graph g, const Search s, u32 count, u32 arcs, u32 step) {
    over_arcs(s.queue, 0, count, arcs, [&](u32 entry, u32 k) {
        if (entry == NONE) return;
        const u32 u = __ldcg(s.queue.rows + entry), d = __ldcg(s.distance + u);
        const u64 at = __ldg(g.out_offsets + u) + k, key = (u64)d << 32 | u;
        if (at >= __ldg(g.out_offsets + u + 1)) return;
        const u32 v = __ldg(g.out_neighbors + at), away = __ldcg(s.distance + v);
        if (d >= away || sum_of(d, __ldg(g.out_weights + at)) != away) return;
        if (step == 0) s.record[v] = ~0ull;
        if (step == 1) atomicMin(s.record + v, key);
        if (step == 2 && __ldcg(s.record + v) == key) {
            s.parent[v] = name_of(g, u);
            atomicOr(s.resolved + (v >> 5), bit_of(v));
        }
    });
}

// Takes neighbour u along an arc of weight w as the parent of a row at `at`, if it is a better one.
__device__ __forceinline__ void offer(u32 at, u32 u, u32 away, float w, u32& near, u32& parent) {
    if (away < at && sum_of(away, w) == at && (away < near || (away == near && u < parent))) {
        near = away;
        parent = u;
    }
}

__device__ __forceinline__ bool offer_pair(const Search& s, uint4 pair, u32 floor, u32 at, u32& near, u32& parent,
                                           u64& examined) {
    const float w = __uint_as_float(pair.y), x = __uint_as_float(pair.w);
    const bool one = sum_of(floor, w) <= at, two = sum_of(floor, x) <= at;
    const u32 a = one ? __ldcg(s.distance + pair.x) : UNREACHED, b = two ? __ldcg(s.distance + pair.z) : UNREACHED;
    examined += one + two;
    offer(at, pair.x, a, w, near, parent);
    offer(at, pair.z, b, x, near, parent);
    return two;
}

// Parents of all rows that have none among the inner vertices; the others are at `floor` or beyond.
__device__ __forceinline__ void parent_pass(const Graph& g, const Search& s, Slot* slot, u32 root, u32 floor,
                                            Room& room, u64& examined) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    const uint4 none = make_uint4(0, UNREACHED, 0, UNREACHED);
    for (u32 v = warp; v < g.hubs; v += warps) {
        const u32 at = __ldcg(s.distance + v);
        if (__ldcg(s.resolved + (v >> 5)) & bit_of(v)) continue;
        u64 best = ~0ull;
        const u64 end = at < UNREACHED ? __ldg(g.in_offsets + v + 1) : 0;
        for (u64 a = __ldg(g.in_offsets + v) + lane; a - lane < end; a += 32) {
            const float w = a < end ? __ldg(g.in_weights + a) : __uint_as_float(UNREACHED);
            const bool goes = sum_of(floor, w) <= at;
            if (goes) {
                const u32 u = __ldg(g.in_neighbors + a), away = __ldcg(s.distance + u);
                if (away < at && sum_of(away, w) == at) best = min(best, (u64)away << 32 | u);
                examined++;
            }
            if (!__all_sync(FULL, goes)) break;
        }
        for (int step = 16; step; step >>= 1) best = min(best, __shfl_xor_sync(FULL, best, step));
        if (v == root) best = v;
        if (lane == 0) s.parent[v] = best == ~0ull ? NONE : name_of(g, (u32)best);
        append(s.queue.rows, &slot->count, 0, lane == 0 && at < UNREACHED && best == ~0ull, v);
    }
    for (u32 unit = g.hubs / (UNIT * 128) + warp; unit * UNIT < g.quads; unit += warps) {
        const u32 base = unit * UNIT * 128;
        u32 kept = 0;
        for (u32 quad = 0; quad < UNIT && unit * UNIT + quad < g.quads; quad++) {
            const u32 first = base + quad * 128 + lane;
            const uint4 done = __ldcg((const uint4*)s.resolved + unit * UNIT + quad);
            const u32 has[4] = {done.x, done.y, done.z, done.w};
            u32 at[4], away[4], near[4], parent[4];
            uint2 h[4];
            float second[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const u32 v = first + 32 * j;
                at[j] = v < g.rows && !(has[j] >> lane & 1) ? __ldcg(s.distance + v) : NONE;
                h[j] = v < g.rows ? __ldcs(g.head + v) : make_uint2(0, UNREACHED);
                second[j] = v < g.longer1 ? __ldcs(g.second + v) : __uint_as_float(UNREACHED);
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const bool goes = at[j] < UNREACHED && sum_of(floor, __uint_as_float(h[j].y)) <= at[j];
                away[j] = goes ? __ldcg(s.distance + h[j].x) : UNREACHED;
                examined += goes;
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const u32 v = first + 32 * j;
                near[j] = UNREACHED;
                parent[j] = NONE;
                if (at[j] < UNREACHED) offer(at[j], h[j].x, away[j], __uint_as_float(h[j].y), near[j], parent[j]);
                const bool goes = at[j] < UNREACHED && v != root && sum_of(floor, second[j]) <= at[j];
                const u32 waiting = __ballot_sync(FULL, goes);
                if (goes) {
                    const u32 place = kept + __popc(waiting & ((1u << lane) - 1));
                    room.rows[place] = v - base;
                    room.best[place] = near[j];
                    room.parent[place] = parent[j];
                }
                kept += __popc(waiting);
                if (at[j] != NONE && !goes) {
                    if (v == root) parent[j] = v;
                    s.parent[v] = parent[j] == NONE ? NONE : name_of(g, parent[j]);
                }
                append(s.queue.rows, &slot->count, 0, at[j] < UNREACHED && !goes && parent[j] == NONE, v);
            }
        }
        __syncwarp();
        u32 v = lane < kept ? base + room.rows[lane] : NONE;
        uint4 pair = v != NONE ? __ldcs(g.pair + v) : none;
        for (u32 first = 0; first < kept; first += 32) {
            const u32 next_v = first + 32 + lane < kept ? base + room.rows[first + 32 + lane] : NONE;
            const uint4 next_pair = next_v != NONE ? __ldcs(g.pair + next_v) : none;
            u32 parent = 0;
            if (v != NONE) {
                const u32 at = __ldcg(s.distance + v);
                u32 near = room.best[first + lane];
                parent = room.parent[first + lane];
                bool goes = offer_pair(s, pair, floor, at, near, parent, examined) && v < g.longer3;
                if (goes) goes = offer_pair(s, __ldcs(g.pair2 + v), floor, at, near, parent, examined);
                if (goes) {
                    const u64 end = __ldg(g.in_offsets + v + 1);
                    for (u64 a = __ldg(g.in_offsets + v) + 5; a < end; a++) {
                        const float w = __ldg(g.in_weights + a);
                        if (sum_of(floor, w) > at) break;
                        const u32 u = __ldg(g.in_neighbors + a);
                        offer(at, u, __ldcg(s.distance + u), w, near, parent);
                        examined++;
                    }
                }
                s.parent[v] = parent == NONE ? NONE : name_of(g, parent);
            }
            append(s.queue.rows, &slot->count, 0, v != NONE && parent == NONE, v);
            v = next_v;
            pair = next_pair;
        }
        __syncwarp();
    }
}

// Rows whose shortest ways all come over arcs that add nothing take the smallest id among the
// neighbours at the same distance that have a parent; called round by round, in two steps.
__device__ __noinline__ u32 plateau_step(const Graph g, const Search s, u32 count, bool apply) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    u32 found = 0;
    for (u32 i = thread; i < count; i += threads) {
        const u32 v = __ldcg(s.queue.rows + i), d = __ldcg(s.distance + v);
        if (!(__ldcg(s.marks + (v >> 5)) & bit_of(v))) continue;
        if (apply) {
            const u64 parent = __ldcg(s.record + v);
            if (parent == ~0ull) continue;
            s.parent[v] = name_of(g, (u32)parent);
            atomicAnd(s.marks + (v >> 5), ~bit_of(v));
            found++;
            continue;
        }
        u32 parent = NONE;
        const u64 end = __ldg(g.in_offsets + v + 1);
        for (u64 a = __ldg(g.in_offsets + v); a < end; a++) {
            if (sum_of(d, __ldg(g.in_weights + a)) > d) break;
            const u32 u = __ldg(g.in_neighbors + a);
            if (__ldcg(s.distance + u) == d && !(__ldcg(s.marks + (u >> 5)) & bit_of(u))) parent = min(parent, u);
        }
        s.record[v] = parent == NONE ? ~0ull : parent;
    }
    return found;
}

__device__ __forceinline__ u32 block_max(u32 value, u32* scratch) {
    value = __reduce_max_sync(FULL, value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x < blockDim.x / 32 ? scratch[threadIdx.x] : 0;
    return __reduce_max_sync(FULL, value); // right in the first warp
}

extern "C" __global__ void __launch_bounds__(1024, 1)
    sssp_search(u32 rows, u32 quads, u64 arcs, const u64* out_offsets, const u32* out_neighbors,
                const float* out_weights, const float* lightest, u32 lightest_shift, const u64* in_offsets,
                const u32* in_neighbors, const float* in_weights, const uint2* head, const float* second,
                const uint4* pair, const uint4* pair2, u32 longer1, u32 longer3, u32 hubs, const u32* original_of,
                u32* parent, u32* distance, u64* record, u32* marks, u32* resolved, u32* queue, u32* starts,
                u64* stretches, u32 stretch_room, State* state, float step, u32 may_pull, u32 root) {
    extern __shared__ uint4 shared[];
    __shared__ u64 scratch[32];
    Room& room = ((Room*)shared)[threadIdx.x / 32];
    const Graph g = {rows, quads, out_offsets, out_neighbors, out_weights, lightest, lightest_shift, in_offsets,
                     in_neighbors, in_weights, head, second, pair, pair2, longer1, longer3, hubs, original_of};
    const Search s = {parent, distance, record, marks, resolved, {queue, starts}, stretches, stretch_room};
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const bool chief = thread == 0;
    u32 goal = 0, tick = 0;
    Slot* slot = state->slot;
#ifdef TRACE
    u64 clock = 0;
#define STAMP(k) if (chief) state->stamp[k] = nanoseconds() - clock
    if (chief) clock = nanoseconds();
#else
#define STAMP(k)
#endif
    // Everybody is through with the slot behind the next one when a new one is begun.
    auto next_slot = [&]() {
        slot = state->slot + (++tick & 3);
        if (chief) state->slot[(tick + 2) & 3] = Slot{};
    };
    auto wait = [&]() { grid_barrier(&state->barrier, goal); };

    for (u32 q = thread; q < quads * 32; q += threads)
        ((uint4*)distance)[q] = make_uint4(UNREACHED, UNREACHED, UNREACHED, UNREACHED);
    clear(marks, quads);
    clear(resolved, quads);
    if (chief)
        for (int k = 0; k < 4; k++) {
            state->slot[k] = Slot{};
            state->phase[k] = 0;
        }
    wait();
    if (chief) {
        distance[root] = 0;
        record[root] = ~0ull;
        parent[0] = queue[0] = root;
    }
    wait();

    // Push below a rising bound.
    u32 *now = queue, *later = starts, *now_marks = marks, *later_marks = resolved;
    u32 reached = 1, count = 1, bound = 0, inner = 0, floor = 0, rounds = 0, raises = 0;
    u64 examined = 0, reached_arcs = out_degree(g, root);
    bool growing = true, settled = false;
    auto relax = [&](u32 limit, bool note) { // to the fixed point below the limit
        u64 looked = 0, again = 0;
        while (count) {
            next_slot();
            rounds++;
            const Wave wave = {now, now_marks, later, later_marks, count, reached, limit, note};
            Tally tally = relax_queue(g, s, slot, wave);
            add_from_block(tally.examined << 28 | tally.again, &slot->examined, scratch);
            if (note && growing) add_from_block(tally.arcs, &slot->arcs, scratch);
            wait();
            const u32 rest = __ldcg(&slot->stretches);
            if (rest) {
                tally = relax_stretches(g, s, slot, wave, rest);
                add_from_block(tally.examined << 28 | tally.again, &slot->examined, scratch);
                if (note && growing) add_from_block(tally.arcs, &slot->arcs, scratch);
                wait();
            }
            count = __ldcg(&slot->count);
            const u64 both = __ldcg(&slot->examined);
            looked += both >> 28;
            again += both & ((1u << 28) - 1);
            if (note) {
                reached += __ldcg(&slot->reached);
                reached_arcs += __ldcg(&slot->arcs);
            }
            u32 *other = now, *other_marks = now_marks;
            now = later;
            now_marks = later_marks;
            later = other;
            later_marks = other_marks;
        }
        if (note) {
            if (again * 4 > looked) step /= 2;
            else if (again * 16 < looked) step += step;
        }
        return looked;
    };
    for (;;) {
        examined += relax(bound, true);
        next_slot();
        const u32 most = block_max(~smallest_candidate(g, s, reached), (u32*)scratch);
        if (threadIdx.x == 0) atomicMax(&slot->least, most);
        wait();
        const u32 smallest = ~__ldcg(&slot->least);
        if (growing && reached_arcs * ENOUGH_PUSHED < arcs) {
            inner = reached;
            floor = smallest;
        } else {
            growing = false;
        }
        settled = smallest == UNREACHED;
        if (settled || (may_pull && examined * ENOUGH_PUSHED >= arcs)) break;
        bound = max(smallest, __float_as_uint(__fadd_rn(__uint_as_float(smallest), step)));
        raises++;
        next_slot();
        wake(g, s, slot, now, now_marks, reached, bound);
        wait();
        count = __ldcg(&slot->count);
    }
    STAMP(0);
    u64 phase[4] = {examined, 0, 0, 0};
    const u32 beyond = floor;
    if (!settled && inner) {
        next_slot();
        enter_inner(g, s, slot, inner, false);
        wait();
        const u32 total = (u32)(__ldcg(&slot->queued) & ARC_MASK);
        push_inner(g, s, inner, total);
        phase[0] += total;
        wait();
    }
    STAMP(1);

    // Pull until nothing changes, or pushing what changed is cheaper.
    u32 passes = 0;
    while (!settled) {
        next_slot();
        Pulled sum = {0, 0, 0, 0, UNREACHED, 0};
        pull_pass(g, s, bound, floor, passes > 0, room, sum);
        passes++;
        add_from_block(sum.examined, &slot->examined, scratch);
        add_from_block(sum.arcs, &slot->arcs, scratch);
        add_from_block((u64)sum.changed << 32 | sum.reached, &slot->queued, scratch);
        const u32 least = block_max(~sum.least, (u32*)scratch), most = block_max(sum.most, (u32*)scratch);
        if (threadIdx.x == 0) {
            atomicMax(&slot->least, least);
            atomicMax(&slot->most, most);
        }
        wait();
        const u64 pulled = __ldcg(&slot->examined), changed_arcs = __ldcg(&slot->arcs);
        const u64 both = __ldcg(&slot->queued);
        const u32 high = __ldcg(&slot->most);
        phase[1] += pulled;
        STAMP(1 + min(passes, 2u));
        if (!(both >> 32)) break;
        floor = ~__ldcg(&slot->least);
        bound = max(bound, floor);
        if (passes > 1 && changed_arcs * 2 <= pulled + rows) {
            next_slot();
            now_marks = marks;
            later_marks = resolved;
            list_marked(g, s, slot, now);
            wait();
            count = __ldcg(&slot->count);
            phase[2] = relax((u32)both ? UNREACHED - 1 : high, false);
            break;
        }
    }
    STAMP(4);

    // Parents. Inner vertices are nearer than all others, so who has one of them needs no other.
    if (inner) {
        next_slot();
        enter_inner(g, s, slot, inner, true);
        wait();
        const u32 total = (u32)(__ldcg(&slot->queued) & ARC_MASK);
        for (u32 k = 0; k < 3; k++) {
            offer_inner(g, s, inner, total, k);
            wait();
        }
        phase[3] += total;
    }
    STAMP(5);
    next_slot();
    u64 looked = 0;
    parent_pass(g, s, slot, root, beyond, room, looked);
    clear(marks, quads);
    add_from_block(looked, &slot->examined, scratch);
    wait();
    phase[3] += __ldcg(&slot->examined);
    const u32 flat = __ldcg(&slot->count);
    u32 unresolved = 0;
    if (flat) {
        for (u32 i = thread; i < flat; i += threads) {
            const u32 v = __ldcg(queue + i);
            atomicOr(marks + (v >> 5), bit_of(v));
        }
        wait();
        for (unresolved = flat; unresolved;) {
            next_slot();
            plateau_step(g, s, flat, false);
            wait();
            add_from_block(plateau_step(g, s, flat, true), &slot->examined, scratch);
            wait();
            const u32 found = (u32)__ldcg(&slot->examined);
            if (!found) break;
            unresolved -= found;
        }
    }
    if (chief) {
        for (int k = 0; k < 4; k++) state->phase[k] = phase[k];
        state->passes = passes;
        state->rounds = rounds;
        state->raises = raises;
        state->inner = inner;
        state->unresolved = unresolved;
        STAMP(6);
    }
    leave_grid(&state->barrier);
}
