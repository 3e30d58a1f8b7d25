// Direction-optimizing BFS of one whole graph in one cooperative launch (decision 8).
//
// Rows are hub-first: each ascends by internal id, which is the degree rank. The first HEADS
// neighbours of all rows stand in columns of their own, so that bottom-up reads them in order.
// The frontier's bits of the hubs are copied to shared memory, which answers nearly all look-ups.
//
// Parents are canonical: the smallest internal id one level up. Pull meets it first in the row.
// Push takes whoever comes first, then goes over the same arcs again with an atomic minimum, so
// that no array has to be cleared beforehand.
#include "bfs_push.cuh"
#include "bfs_pull.cuh"

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
