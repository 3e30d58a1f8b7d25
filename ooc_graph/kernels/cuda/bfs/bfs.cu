// Direction-optimizing BFS of one whole graph in one cooperative launch.
//
// Rows are hub-first: each ascends by internal id, which is the degree rank. The first HEADS
// neighbours of all rows stand in columns of their own, so that bottom-up reads them in order.
// The frontier's bits of the hubs are copied to shared memory, which answers nearly all look-ups.
//
// Parents are canonical: the smallest internal id one level up. Pull meets it first in the row.
// Push takes whoever comes first, then goes over the same arcs again with an atomic minimum, so
// that no array has to be cleared beforehand; frontiers of very many arcs clear it and flood. Narrow
// levels leave levels only, and parents follow from those.
#include "bfs_flood.cuh"
#include "bfs_narrow.cuh"
#include "bfs_open.cuh"
#include "bfs_pull.cuh"
#include "bfs_plan.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    bfs_search(u32 rows, u32 quads, u64 arcs, const u64* out_offsets, const u32* out_neighbors, const u64* in_offsets,
               const u32* in_neighbors, const u32* head, const uint4* heads, const u32* head_original, u32 longer1,
               u32 longer5, const uint4* fixed, const u32* plane_starts, const u32* original_of, u32* parent,
               LEVEL* level, u32* visited, u32* maps, u32* fronts, u32* rough, u32* queue, u32* starts, u64* pieces,
               u32* open, State* state, LevelTrace* trace, u32 traced_levels, u32 root
#if TIERED
               , const u32* out_near, const u32* in_near, u32 out_near_rows, u32 in_near_rows, u32 columns,
               const uint2* column, u32 queue_capacity
#endif
    ) {
    __shared__ u64 scratch[32];
    __shared__ u32 map_levels[MAPS];
    const Graph g = {rows, quads, out_offsets, out_neighbors, in_offsets, in_neighbors, head, heads, head_original,
                     longer1, longer5, original_of
#if TIERED
                     , out_near, in_near, out_near_rows, in_near_rows, columns, column
#endif
    };
    const Search s = {parent, level, visited, maps, {queue, starts}, pieces
#if TIERED
                      , queue_capacity
#endif
    };
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const bool chief = thread == 0;
#ifdef TRACE
    const u64 started = chief ? nanoseconds() : 0;
#else
    const u64 started = 0;
#endif
    const u32 narrow_arcs = THIN ? NARROW_ARCS : 0;
    u32 goal = 0;

    for (u32 q = thread; q < quads; q += threads) { // rows that do not exist count as visited
        u32 words[4] = {0, 0, 0, 0};
        if (rows - q * 128 < 128)
            for (u32 row = rows; row < q * 128 + 128; row++) words[row & 3] |= bit_at(row);
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            if (word_at(root) == q * 4 + j) words[j] |= bit_at(root);
        ((uint4*)visited)[q] = make_uint4(words[0], words[1], words[2], words[3]);
    }
    clear(fronts, quads);
    clear(rough, ROUGH_WORDS / 4);
    if (THIN) // parents follow from levels
        for (u64 q = thread; q < quads * 8ull * sizeof(LEVEL); q += threads)
            ((uint4*)level)[q] = make_uint4(FULL, FULL, FULL, FULL);
#ifdef COUNT
    for (u32 k = thread; k < traced_levels; k += threads) trace[k].examined = 0;
#endif
    if (chief) {
        for (int k = 0; k < 4; k++) state->slot[k] = Slot{};
        state->overflow = 0;
        queue[0] = root;
        starts[0] = 0;
        trace[0].found = 1;
    }
    grid_barrier(&state->barrier, goal);
    if (chief) set_found(s, root, 0, name_of(g, root));

    Plan p = {};
    p.found = p.tail = p.converted = 1;
    p.listed = true;
    p.dirty = 6;
    p.arcs = out_degree(g, root);
    p.unvisited = rows - 1;
    p.unvisited_arcs = arcs - p.arcs;
    while (p.found) {
        if (p.level == LAST_LEVEL) {
            if (chief) state->overflow = 1;
            break;
        }
        const bool narrow = THIN && p.direction == PUSH && p.arcs <= narrow_arcs && !p.broad;
        p.level++;
        if (!narrow) p.turn++;
        Slot* slot = state->slot + (p.turn & 3);
        if (chief && !narrow) state->slot[(p.turn + 2) & 3] = Slot{};
        u32* front = fronts + p.cur * 4ull * quads;
        u32* next = fronts + (p.cur + 1) % 3 * 4ull * quads;
        Tally tally = {};
        u64 pushed = 0;
        if (narrow) {
            if (blockIdx.x == 0) {
                const Progress start = {p.found, p.arcs, p.unvisited, p.unvisited_arcs, p.level - 1, p.head, p.tail};
                narrow_levels(g, s, {fixed, plane_starts}, start, &state->progress, &state->own, trace,
                              traced_levels, started);
            }
            grid_barrier(&state->barrier, goal);
            arrive(g, s, p, state, goal);
        } else if (p.direction == PUSH) {
            pushed = p.arcs;
            if (floods(p, rows)) {
                grid_barrier(&state->barrier, goal); // before parents are read
                clear_parents(g, s, p.converted, p.tail);
                grid_barrier(&state->barrier, goal);
                flood(g, s, p.head, p.tail, (u32)p.arcs);
                grid_barrier(&state->barrier, goal);
                add_from_block(take_flooded(g, s, next, p.tail, p.level), &slot->found, scratch);
                grid_barrier(&state->barrier, goal);
                p.found = __ldcg(&slot->found);
                p.converted = p.tail;
                p.cur = (p.cur + 1) % 3;
                p.dirty |= 1u << p.cur;
                p.bits = true;
                p.listed = p.has_names = false;
            } else {
                const u64 found = push_level(g, s, slot, p.head, p.tail, (u32)p.arcs, p.level), before = p.found;
                add_from_block(found, &slot->found, scratch);
                grid_barrier(&state->barrier, goal);
                p.found = __ldcg(&slot->found);
                if (p.found && before > 1) settle_level(g, s, p.head, p.tail, (u32)p.arcs, p.level);
                p.bits = false;
                p.arcs = __ldcg(&slot->queued) & ARC_MASK;
                p.unvisited_arcs -= min(p.arcs, p.unvisited_arcs);
                p.head = p.tail;
                p.tail += (u32)p.found;
            }
        } else {
            const bool rough_front = p.rough && !p.few;
            const Front look = {front, p.few ? 0u : HUB_QUADS * 4, rough_shift(g), rough_front};
            if (!p.few)
                for (u32 i = threadIdx.x; i < min(HUB_QUADS, quads); i += blockDim.x)
                    shared[i] = __ldcg((const uint4*)front + i);
            if (rough_front)
                for (u32 i = threadIdx.x; i < ROUGH_WORDS; i += blockDim.x) rough_words()[i] = __ldcg(rough + i);
            p.rough = false;
            __syncthreads();
            // At the end of a search few rows are found, and going on from them is narrow.
            const bool lists = narrow_arcs && p.few && p.unvisited <= LIST_ROWS;
            if (p.few) {
                if (lists) convert_queue(g, s, p.converted, p.tail);
                tally = pull_open(g, s, look, next, slot, open, p.open, lists ? p.tail : NONE, p.level);
                clear(fronts + (p.cur + 2) % 3 * 4ull * quads, quads);
                p.dirty = 1u << p.cur | 1u << (p.cur + 1) % 3;
            } else {
                if (p.maps == MAPS) {
                    grid_barrier(&state->barrier, goal); // the only ones to write answers now
                    enter_levels(g, s, p.maps, map_levels, false);
                    grid_barrier(&state->barrier, goal);
                    p.maps = 0;
                }
                if (threadIdx.x == 0) map_levels[p.maps] = p.level;
                u32* const map = maps + p.maps * 4ull * quads;
                // Each case is compiled for itself: look-ups without rough bits are shorter.
                const Front with = {front, HUB_QUADS * 4, look.shift, true}, without = {front, HUB_QUADS * 4, 0, false};
                if (rough_front) tally = pull_all(g, s, with, next, map, slot, !p.has_names, visited);
                else tally = pull_all(g, s, without, next, map, slot, !p.has_names, visited);
                p.maps++;
                p.has_names = true;
                p.dirty |= 1u << (p.cur + 1) % 3;
            }
            add_from_block(tally.found, &slot->found, scratch);
            grid_barrier(&state->barrier, goal);
            const u32 count = __ldcg(&slot->pieces);
            if (count) {
                const u64 more = pull_long_rows(g, s, look, count).examined;
                grid_barrier(&state->barrier, goal);
                tally.found = claim_long(g, s, next, slot, count, lists ? p.tail : NONE, p.level).found;
                tally.examined += more;
                add_from_block(tally.found, &slot->found, scratch);
                grid_barrier(&state->barrier, goal);
            }
            p.found = __ldcg(&slot->found);
            p.cur = (p.cur + 1) % 3;
            p.bits = true;
            p.listed = lists;
            if (lists) {
                p.arcs = __ldcg(&slot->queued) & ARC_MASK;
                p.head = p.tail;
                p.converted = p.tail += (u32)p.found;
            }
        }
        if (!narrow) {
            p.unvisited -= p.found;
            p.broad = false;
        }
#ifdef COUNT
        add_from_block(tally.examined, &trace[min(p.level, traced_levels - 1)].examined, scratch);
#endif
        if (chief && !narrow && p.level < traced_levels) {
            LevelTrace* c = trace + p.level;
            c->found = p.found;
            c->pushed = pushed;
            c->direction = p.direction;
#ifdef TRACE
            c->elapsed = nanoseconds() - started;
#endif
        }
        if (!p.found) break;
        // How to continue, and what the frontier must look like for it.
        front = fronts + p.cur * 4ull * quads;
        if (!p.listed && p.found * PUSH_BELOW < p.unvisited && p.unvisited > OPEN_ROWS) {
            convert_queue(g, s, p.converted, p.tail);
            list_front(g, s, front, slot, p.tail);
            grid_barrier(&state->barrier, goal);
            p.arcs = __ldcg(&slot->queued) & ARC_MASK;
            p.head = p.tail;
            p.converted = p.tail += (u32)p.found;
            p.listed = true;
        }
        const bool light = p.arcs <= narrow_arcs ||
                           (!p.few && p.arcs * PULL_ABOVE <= p.unvisited_arcs && can_push(p, rows));
        p.direction = p.listed && light ? PUSH : PULL;
        bool wait = false;
        const bool make_few = p.direction == PULL && !p.few && p.unvisited * OPEN_BELOW < rows;
        const u32 other = (p.cur + 1) % 3;
        if (p.direction == PULL && (p.few || make_few) && p.dirty >> other & 1) {
            clear(fronts + other * 4ull * quads, quads);
            p.dirty &= ~(1u << other);
            wait = true;
        }
        if (p.direction == PUSH && p.maps) { // a push tells by their levels which rows are its own
            enter_levels(g, s, p.maps, map_levels, false);
            p.maps = 0;
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
            p.rough = !p.roughed && p.found * ROUGH_BELOW < ROUGH_BITS;
            p.roughed |= p.rough;
            const u32 shift = rough_shift(g);
            for (u32 i = p.head + thread; i < p.tail; i += threads) {
                const u32 v = __ldcg(queue + i), group = v >> 7 >> shift;
                atomicOr(front + word_at(v), bit_at(v));
                if (p.rough && v >= HUB_QUADS * 128) atomicOr(rough + (group >> 5), 1u << (group & 31));
            }
            p.dirty |= 1u << p.cur;
            p.bits = wait = true;
        }
        if (wait) grid_barrier(&state->barrier, goal);
    }
    if (p.converted < p.tail) {
        convert_queue(g, s, p.converted, p.tail);
        grid_barrier(&state->barrier, goal);
    }
    if (!THIN || p.maps || p.unvisited) enter_levels(g, s, p.maps, map_levels, true);
    if (chief) {
        state->levels = p.level;
#ifdef TRACE
        if (p.level < traced_levels) trace[p.level].elapsed = nanoseconds() - started;
#endif
    }
    leave_grid(&state->barrier);
}
