// Direction-optimizing BFS of one whole graph in one cooperative launch (decision 8).
//
// Rows are hub-first: each ascends by internal id, which is the degree rank. The first HEADS
// neighbours of all rows stand in columns of their own, so that bottom-up reads them in order.
// The frontier's bits of the hubs are copied to shared memory, which answers nearly all look-ups.
//
// Parents are canonical: the smallest internal id one level up. Pull meets it first in the row.
// Push takes whoever comes first, then goes over the same arcs again with an atomic minimum, so
// that no array has to be cleared beforehand.
#include "queue.cuh"

#ifndef HUB_WORDS
#define HUB_WORDS 32768
#endif
#ifndef LEVEL
#define LEVEL u8
#endif
#define HUB_QUADS ((u32)HUB_WORDS / 4)
#define UNREACHED ((LEVEL)~(LEVEL)0)
#define LAST_LEVEL ((u32)((sizeof(LEVEL) == 1) ? 253u : 0x7FFFFFFEu))

#define PUSH 0
#define PULL 1

// A frontier with fewer arcs is pushed with a queue; with more, found vertices are bits only.
#ifndef QUEUE_ARCS
#define QUEUE_ARCS (1u << 18)
#endif
// Pull once the frontier holds one in this many of the arcs not visited yet.
#ifndef PULL_ABOVE
#define PULL_ABOVE 60
#endif
// Push again once the frontier holds fewer than one in this many of the vertices not visited yet,
#ifndef PUSH_BELOW
#define PUSH_BELOW 32
#endif
// unless those are so few that a list of them is as quick.
#ifndef OPEN_ROWS
#define OPEN_ROWS (1u << 20)
#endif
// Such a list pays when it is one in this many of all rows.
#ifndef OPEN_BELOW
#define OPEN_BELOW 32
#endif
// First neighbours in arrays of their own: one, four, and four more.
#define HEADS 9
// Arcs of a row that one thread looks at beyond the heads; what follows is cut into stretches of
// so many arcs, a warp each.
#define LANE_ARCS 24u
#define STRETCH 1024u
// Quads of rows that a warp takes at a time.
#define UNIT 8u
// A unit with fewer open rows is packed first, a row a lane.
#define SPARSE 512u

struct Slot {
    u64 found;    // vertices
    u64 queued;   // entries of the queue << ARC_BITS, and their out-arcs
    u32 stretches; // of long rows that are left for later
    u32 open;      // entries of the list of rows not visited yet
};

struct State {
    Barrier barrier;
    u32 levels;   // levels that have vertices
    u32 overflow; // there are more than LEVEL can tell: the answer is not whole
    Slot slot[4];
};

// What a level cost, by the number of the level that it found.
struct Course {
    u64 found, pushed, examined, elapsed;
    u64 direction;
};

struct Graph {
    u32 rows, quads; // quads: 128 rows each
    const u64* out_offsets;
    const u32* out_neighbors;
    const u64* in_offsets;
    const u32* in_neighbors;
    const u32* head;          // first neighbours, NONE where there is none
    const uint4* heads;       // second to fifth (longer1,), then sixth to ninth (longer5,)
    const u32* head_original; // original ids of `head`
    u32 longer1, longer5;     // rows from these on have no second, no sixth neighbour
    const u32* original_of;   // null: parents are given as internal ids, and `head_original` is `head`
};

struct Search {
    u32* parent;
    LEVEL* level;
    u32* visited;
    Queue queue;
    u64* stretches; // row << 32 | number of the stretch
};

// The frontier in shared memory as far as hubs go, and all of it in global memory.
struct Front {
    const u32* hubs;
    const u32* words;
    u32 hub_words;
};

// What one thread has counted since the level began.
struct Tally {
    u64 found, examined;
};

// What an internal id is called in the answer.
__device__ __forceinline__ u32 name_of(const Graph& g, u32 vertex) {
    return g.original_of ? __ldg(g.original_of + vertex) : vertex;
}

__device__ __forceinline__ u64 out_degree(const Graph& g, u32 vertex) {
    return __ldg(g.out_offsets + vertex + 1) - __ldg(g.out_offsets + vertex);
}

// The word that holds a vertex's bit. Both loads are predicated, so that several look-ups overlap.
__device__ __forceinline__ u32 word_of(const Front& front, u32 vertex) {
    u32 word = vertex >> 5, bits = 0;
    if (word < front.hub_words) bits = front.hubs[word];
    if (word >= front.hub_words && vertex != NONE) bits = __ldcg(front.words + word);
    return bits;
}

__device__ __forceinline__ bool holds(const Front& front, u32 vertex) {
    return word_of(front, vertex) & bit_of(vertex);
}

// Claims a neighbour for the next level, in the queue or as a bit of `next`; called by whole warps.
template <bool QUEUED>
__device__ __forceinline__ void push_arc(const Graph& g, const Search& s, u32* next, Slot* slot, u32 tail, u32 from,
                                         u32 to, u32 level, Tally& tally) {
    bool won = false;
    if (to != NONE) {
        u32 bit = bit_of(to);
        if (!(__ldcg(s.visited + (to >> 5)) & bit)) won = !(atomicOr(s.visited + (to >> 5), bit) & bit);
    }
    if (won) {
        s.level[to] = (LEVEL)level;
        s.parent[to] = from;
        tally.found++;
        if (!QUEUED) atomicOr(next + (to >> 5), bit_of(to));
    }
    if (QUEUED && __any_sync(FULL, won))
        enter(s.queue, &slot->queued, tail, won, [&](u32) { return to; }, [&](u32) { return out_degree(g, to); });
}

// Takes the smallest of all parents; after all claims of the level.
__device__ __forceinline__ void settle_arc(const Search& s, u32 from, u32 to, u32 level) {
    if (to != NONE && __ldcg(s.level + to) == (LEVEL)level && __ldcg(s.parent + to) > from)
        atomicMin(s.parent + to, from);
}

// Goes through the arcs of the frontier: `arc(from, to)`, `to` being NONE in lanes that have none.
template <typename Arc>
__device__ __forceinline__ void over_frontier(const Graph& g, const Search& s, u32 head, u32 tail, u32 arcs, Arc arc) {
    over_arcs(s.queue, head, tail, arcs, [&](u32 entry, u32 k) {
        u32 from = 0, to = NONE;
        if (entry != NONE) {
            from = __ldcg(s.queue.rows + entry);
            u64 at = __ldg(g.out_offsets + from) + k;
            if (at < __ldg(g.out_offsets + from + 1)) to = __ldg(g.out_neighbors + at);
        }
        arc(from, to);
    });
}

// One level top-down; returns what this thread has found.
__device__ __noinline__ u64 push_level(const Graph g, const Search s, u32* next, Slot* slot, u32 head, u32 tail,
                                       u32 arcs, u32 level) {
    Tally tally = {0, 0};
    if (arcs <= QUEUE_ARCS)
        over_frontier(g, s, head, tail, arcs, [&](u32 from, u32 to) {
            push_arc<true>(g, s, next, slot, tail, from, to, level, tally);
        });
    else
        over_frontier(g, s, head, tail, arcs, [&](u32 from, u32 to) {
            push_arc<false>(g, s, next, slot, tail, from, to, level, tally);
        });
    return tally.found;
}

__device__ __noinline__ void settle_level(const Graph g, const Search s, u32 head, u32 tail, u32 arcs, u32 level) {
    over_frontier(g, s, head, tail, arcs, [&](u32 from, u32 to) { settle_arc(s, from, to, level); });
}

// Parents that a push left as internal ids become original ids.
__device__ __forceinline__ void convert(const Graph& g, const Search& s, u32 vertex) {
    s.parent[vertex] = name_of(g, __ldcg(s.parent + vertex));
}

__device__ __noinline__ void convert_queue(const Graph g, const Search s, u32 begin, u32 end) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 i = begin + thread; i < end; i += threads) convert(g, s, __ldcg(s.queue.rows + i));
}

// Turns the bits of the frontier into queue entries behind `tail`.
__device__ __noinline__ void list_front(const Graph g, const Search s, const u32* front, Slot* slot, u32 tail,
                                           bool internal) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (u32 word = thread; word - thread % 32 < g.quads * 4; word += threads) {
        u32 bits = word < g.quads * 4 ? __ldcg(front + word) : 0;
        if (!__any_sync(FULL, bits != 0)) continue;
        auto vertex = [&](u32 k) { return word * 32 + __fns(bits, 0, k + 1); };
        u32 count = __popc(bits);
        if (internal)
            for (u32 k = 0; k < count; k++) convert(g, s, vertex(k));
        enter(s.queue, &slot->queued, tail, count, vertex, [&](u32 k) { return out_degree(g, vertex(k)); });
    }
}

// Lists the rows not visited yet.
__device__ __noinline__ void list_open(const Graph g, const Search s, Slot* slot, u32* open) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 quad = thread; quad - lane < g.quads; quad += threads) {
        uint4 seen = make_uint4(FULL, FULL, FULL, FULL);
        if (quad < g.quads) seen = __ldcg((const uint4*)s.visited + quad);
        u32 bits[4] = {~seen.x, ~seen.y, ~seen.z, ~seen.w};
        u32 mine = __popc(bits[0]) + __popc(bits[1]) + __popc(bits[2]) + __popc(bits[3]), base = 0;
        if (!__any_sync(FULL, mine)) continue;
        const u32 sum = sum_to_lane(mine);
        if (lane == 31) base = atomicAdd(&slot->open, sum);
        u32 at = __shfl_sync(FULL, base, 31) + sum - mine;
#pragma unroll
        for (int j = 0; j < 4; j++)
            for (u32 rest = bits[j]; rest; rest &= rest - 1) open[at++] = quad * 128 + 32 * j + __ffs(rest) - 1;
    }
}

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

__device__ __noinline__ void convert_front(const Graph g, const Search s, const u32* front) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (u32 word = thread / 32; word < g.quads * 4; word += threads / 32)
        if (__ldcg(front + word) >> lane & 1) convert(g, s, word * 32 + lane);
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
        u32 best = __ldcg(s.parent + v), member = NONE;
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

// Course of a search, the same in all threads.
struct Plan {
    u32 level, direction;
    u32 cur;        // which of the three bitmaps is the frontier; the next one takes what is found
    u32 head, tail; // the frontier in the queue
    u32 converted;  // entries of the queue whose parents are original ids
    u32 open;       // rows in the list of those not visited yet, when that is used
    u64 found, arcs, unvisited, unvisited_arcs;
    bool listed;    // the frontier stands in the queue
    bool bits;      // the frontier stands in its bitmap
    bool internal;  // its parents are internal ids, and the queue does not tell whose
    bool few;       // the list of rows not visited yet is made
    u32 dirty;      // bitmaps that are not all zeros, a bit each
};

extern "C" __global__ void __launch_bounds__(1024, 1)
    bfs_search(u32 rows, u32 quads, u64 arcs, const u64* out_offsets, const u32* out_neighbors, const u64* in_offsets,
               const u32* in_neighbors, const u32* head, const uint4* heads, const u32* head_original, u32 longer1,
               u32 longer5, const u32* original_of, u32* parent, LEVEL* level, u32* visited, u32* fronts, u32* queue,
               u32* starts, u64* stretches, u32* open, State* state, Course* course, u32 course_levels, u32 root) {
    extern __shared__ uint4 shared[];
    __shared__ u64 scratch[32];
    u32* hubs = (u32*)shared;
    Room& room = ((Room*)(hubs + HUB_QUADS * 4))[threadIdx.x / 32];
    const Graph g = {rows, quads, out_offsets, out_neighbors, in_offsets, in_neighbors, head, heads, head_original,
                     longer1, longer5, original_of};
    const Search s = {parent, level, visited, {queue, starts}, stretches};
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const bool chief = thread == 0;
#ifdef TRACE
    const u64 started = chief ? nanoseconds() : 0;
#endif
    u32 goal = 0;

    for (u32 q = thread; q < quads; q += threads) { // rows that do not exist count as visited
        u32 words[4];
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u32 first = q * 128 + 32 * j;
            words[j] = first + 32 <= rows ? 0 : first >= rows ? FULL : FULL << (rows - first);
            if (root >> 5 == q * 4 + j) words[j] |= bit_of(root);
        }
        ((uint4*)visited)[q] = make_uint4(words[0], words[1], words[2], words[3]);
    }
    clear(fronts, 3 * quads);
#ifdef COUNT
    for (u32 k = thread; k < course_levels; k += threads) course[k].examined = 0;
#endif
    if (chief) {
        for (int k = 0; k < 4; k++) state->slot[k] = Slot{};
        state->overflow = 0;
        queue[0] = root;
        starts[0] = 0;
        set_found(s, root, 0, name_of(g, root));
        course[0].found = 1;
    }
    grid_barrier(&state->barrier, goal);

    Plan p = {};
    p.found = p.tail = p.converted = 1;
    p.listed = true;
    p.arcs = out_degree(g, root);
    p.unvisited = rows - 1;
    p.unvisited_arcs = arcs - p.arcs;
    while (p.found) {
        if (++p.level > LAST_LEVEL) {
            if (chief) state->overflow = 1;
            break;
        }
        Slot* slot = state->slot + (p.level & 3);
        if (chief) state->slot[(p.level + 2) & 3] = Slot{};
        u32* front = fronts + p.cur * 4ull * quads;
        u32* next = fronts + (p.cur + 1) % 3 * 4ull * quads;
        Tally tally = {0, 0};
        u64 pushed = 0;

        if (p.direction == PUSH) {
            pushed = p.arcs;
            const bool queued = p.arcs <= QUEUE_ARCS;
            tally.found = push_level(g, s, next, slot, p.head, p.tail, (u32)p.arcs, p.level);
            add_from_block(tally.found, &slot->found, scratch);
            grid_barrier(&state->barrier, goal);
            const u64 before = p.found;
            p.found = __ldcg(&slot->found);
            if (p.found && before > 1)
                settle_level(g, s, p.head, p.tail, (u32)p.arcs, p.level);
            p.bits = !queued;
            p.listed = queued;
            p.internal = !queued;
            if (queued) {
                p.arcs = __ldcg(&slot->queued) & ARC_MASK;
                p.unvisited_arcs -= min(p.arcs, p.unvisited_arcs);
                p.head = p.tail;
                p.tail += (u32)p.found;
            } else {
                if (before > 1) grid_barrier(&state->barrier, goal); // before parents are read
                p.cur = (p.cur + 1) % 3;
                p.dirty |= 1u << p.cur;
            }
        } else {
            const Front look = {hubs, front, p.few ? 0u : HUB_QUADS * 4};
            if (!p.few)
                for (u32 i = threadIdx.x; i < min(HUB_QUADS, quads); i += blockDim.x)
                    shared[i] = __ldcg((const uint4*)front + i);
            __syncthreads();
            if (p.internal) convert_front(g, s, front);
            if (p.few) {
                tally = pull_open(g, s, look, next, slot, open, p.open, p.level);
                clear(fronts + (p.cur + 2) % 3 * 4ull * quads, quads);
                p.dirty = 1u << p.cur | 1u << (p.cur + 1) % 3;
            } else {
                pull_all(g, s, look, next, slot, p.level, room, tally);
                p.dirty |= 1u << (p.cur + 1) % 3;
            }
            add_from_block(tally.found, &slot->found, scratch);
            grid_barrier(&state->barrier, goal);
            const u32 count = __ldcg(&slot->stretches);
            if (count) {
                const u64 more = pull_stretches(g, s, look, count).examined;
                grid_barrier(&state->barrier, goal);
                tally.found = claim_long(g, s, next, count, p.level).found;
                tally.examined += more;
                add_from_block(tally.found, &slot->found, scratch);
                grid_barrier(&state->barrier, goal);
            }
            p.found = __ldcg(&slot->found);
            p.cur = (p.cur + 1) % 3;
            p.bits = true;
            p.listed = p.internal = false;
        }
        p.unvisited -= p.found;
#ifdef COUNT
        add_from_block(tally.examined, &course[min(p.level, course_levels - 1)].examined, scratch);
#endif
        if (chief && p.level < course_levels) {
            Course* c = course + p.level;
            c->found = p.found;
            c->pushed = pushed;
            c->direction = p.direction;
#ifdef TRACE
            c->elapsed = nanoseconds() - started;
#endif
        }
        if (!p.found) break;

        // How to go on, and what the frontier must look like for it.
        front = fronts + p.cur * 4ull * quads;
        if (!p.listed && p.found * PUSH_BELOW < p.unvisited && p.unvisited > OPEN_ROWS) {
            convert_queue(g, s, p.converted, p.tail);
            list_front(g, s, front, slot, p.tail, p.internal);
            grid_barrier(&state->barrier, goal);
            p.arcs = __ldcg(&slot->queued) & ARC_MASK;
            p.head = p.tail;
            p.converted = p.tail += (u32)p.found;
            p.listed = true;
            p.internal = false;
        }
        p.direction = p.listed && p.arcs * PULL_ABOVE <= p.unvisited_arcs ? PUSH : PULL;
        bool wait = false;
        const bool make_few = p.direction == PULL && !p.few && p.unvisited * OPEN_BELOW < rows;
        const u32 other = (p.cur + 1) % 3;
        const bool needs_clear = p.direction == PUSH ? p.arcs > QUEUE_ARCS : p.few || make_few;
        if (needs_clear && p.dirty >> other & 1) {
            clear(fronts + other * 4ull * quads, quads);
            p.dirty &= ~(1u << other);
            wait = true;
        }
        if (make_few) {
            list_open(g, s, slot, open);
            p.few = wait = true;
            p.open = (u32)p.unvisited;
        }
        if (p.direction == PULL && !p.bits) {
            if (p.dirty >> p.cur & 1) {
                clear(front, quads);
                grid_barrier(&state->barrier, goal);
            }
            for (u32 i = p.head + thread; i < p.tail; i += threads) {
                u32 v = __ldcg(queue + i);
                atomicOr(front + (v >> 5), bit_of(v));
            }
            p.dirty |= 1u << p.cur;
            p.bits = wait = true;
        }
        if (wait) grid_barrier(&state->barrier, goal);
    }
    convert_queue(g, s, p.converted, p.tail);
    mark_unreached(g, s);
    if (chief) {
        state->levels = p.level;
#ifdef TRACE
        if (p.level < course_levels) course[p.level].elapsed = nanoseconds() - started;
#endif
    }
    leave_grid(&state->barrier);
}
