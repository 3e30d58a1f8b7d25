// Direction-optimizing BFS of a graph whose rows are dealt to several devices, in one launch on each, all
// blocks of which run at the same time. The devices reach each other's memory: what one finds it writes where the others look, and they
// meet at barriers of their own, so that no host takes part between levels.
//
// A device has bits of all vertices for the frontier and for marks, and of all else its rows. Pulls are those of one device. A push
// marks what it meets with its owner, who says which rows are new, and then lowers their parents there by
// an atomic minimum. If the arcs are many, it marks on its own device, and the owner gathers the marks of
// all. If they are very many, the rows that are new pull: they know that they will meet the frontier. Of rows
// in host memory two devices flood.
#include "bfs_peers.cuh"

struct Course {
    u64 found, unvisited, unvisited_arcs;
    u32 level, turn, cur, maps;
    u32 open;       // rows of this device in the list of those not visited, once that is made
    bool pushes;    // the frontier may be pushed
    bool has_names; // rows not visited yet have their first neighbour as parent
    bool few;       // that list is made
    bool is_marked; // the bitmap of marks of all vertices is not all zeros
};

struct PeersState {
    Meeting meeting;
    u32 levels;   // that have vertices
    u32 overflow; // there are more than LEVEL can tell: the answer is not whole
    u32 is_whole; // the search has come to its end
    u32 unused;
    Slot slot[4]; // of the levels, in turn
};

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    bfs_peers(u32 rows, u32 quads, u32 vertices, u32 all_quads, u64 arcs, const u64* out_offsets,
              const u32* out_neighbors, const u64* in_offsets, const u32* in_neighbors, const u32* head,
              const uint4* heads, u32 longer1, u32 longer5, LEVEL* levels_of, u32* visited, u32* closed, u32* maps,
              u32* queue, u64* pieces, u32* open, PeersState* state, LevelTrace* trace, u32 traced_levels,
              u32 root, u32 epoch, const u64* bases, u32 rank_bits, u32 rank, u64 fronts, u64 wide, u64 marks,
              u64 parent, u64 starts
#if TIERED
              , const u32* out_near, const u32* in_near, u32 out_near_rows, u32 in_near_rows, u32 columns,
              const uint2* column, u32 queue_capacity
#endif
    ) {
    __shared__ u64 scratch[32];
    __shared__ u32 map_levels[MAPS];
    const Graph g = {rows, quads, out_offsets, out_neighbors, in_offsets, in_neighbors, head, heads, head,
                     longer1, longer5, nullptr,
#if TIERED
                     out_near, in_near, out_near_rows, in_near_rows, columns, column,
#endif
                     rank_bits, rank};
    const Peers peers = {bases, 1u << rank_bits, rank, fronts, wide, marks, parent, starts};
    const Search s = {peers.of<u32>(rank, parent), levels_of, visited, maps,
                      {queue, peers.of<u32>(rank, starts)}, pieces
#if TIERED
                      , queue_capacity
#endif
    };
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const bool chief = thread == 0, is_mine = owner_of(g, root) == rank;
    const u32 own_root = is_mine ? row_of(g, root) : NONE;
    const u64 front_bytes = 16ull * all_quads;
    u32* const own_wide = peers.of<u32>(rank, wide);
    Barrier* const barrier = &state->meeting.barrier;
    u32 goal = 0;

    for (u32 q = thread; q < quads; q += threads) { // rows that do not exist count as visited
        u32 words[4] = {0, 0, 0, 0};
        if (rows - q * 128 < 128)
            for (u32 row = rows; row < q * 128 + 128; row++) words[row & 3] |= bit_at(row);
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            if (is_mine && word_at(own_root) == q * 4 + j) words[j] |= bit_at(own_root);
        ((uint4*)visited)[q] = make_uint4(words[0], words[1], words[2], words[3]);
    }
    clear(peers.of<u32>(rank, marks), quads);
    clear(own_wide, all_quads);
    for (u32 k = 0; k < 3; k++) {
        uint4* const front = peers.of<uint4>(rank, fronts + k * front_bytes);
        for (u32 q = thread; q < all_quads; q += threads) {
            u32 words[4] = {0, 0, 0, 0};
#pragma unroll
            for (u32 j = 0; j < 4; j++)
                if (k == 0 && word_at(root) == q * 4 + j) words[j] = bit_at(root);
            front[q] = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
#ifdef COUNT
    for (u32 k = thread; k < traced_levels; k += threads) trace[k].examined = 0;
#endif
    if (chief) {
        for (int k = 0; k < 4; k++) state->slot[k] = Slot{};
        state->overflow = state->is_whole = 0;
        trace[0].found = 1;
        if (is_mine) set_found(s, own_root, 0, root);
    }
    if (!meet(peers, &state->meeting, goal, epoch)) return;
    const u64 started = chief ? nanoseconds() : 0;

    Course p = {};
    p.found = 1;
    p.unvisited = vertices - 1;
    p.unvisited_arcs = arcs;
    p.pushes = true;
    while (p.found) {
        if (p.level == LAST_LEVEL) {
            if (chief) state->overflow = 1;
            break;
        }
        p.level++;
        p.turn++;
        Slot* const slot = state->slot + (p.turn & 3);
        if (chief) state->slot[(p.turn + 2) & 3] = Slot{};
        const u64 at_next = (p.cur + 1) % 3 * front_bytes;
        u32* const front = peers.of<u32>(rank, fronts + p.cur * front_bytes);
        u32* const next = peers.of<u32>(rank, fronts + at_next);
        // Others write there in the next level.
        clear(peers.of<u32>(rank, fronts + (p.cur + 2) % 3 * front_bytes), all_quads);
        if (p.is_marked) clear(own_wide, all_quads);
        p.is_marked = false;
        u64 total = 0;
        u32 entries = 0, own_arcs = 0;
        bool push = false;
        if (p.pushes) {
            list_front(g, s, front, slot, 0);
            grid_barrier(barrier, goal);
            const u64 queued = __ldcg(&slot->queued);
            entries = (u32)(queued >> ARC_BITS);
            own_arcs = (u32)(queued & ARC_MASK); // all that are pushed fit
            if (chief) *sum_for(&state->meeting, epoch) = queued & ARC_MASK;
            if (!meet(peers, &state->meeting, goal, epoch)) return;
            total = total_of(&state->meeting, epoch);
            p.unvisited_arcs -= min(total, p.unvisited_arcs);
            push = p.level == 1 || total * PULL_ABOVE <= p.unvisited_arcs;
            push = push && total <= MOST_SHARED_ARCS && p.found <= MOST_ENTRIES;
        }
        Tally tally = {};
        const bool are_many = push && total > MANY_ARCS, is_known = are_many && !TIERED;
        const bool floods = are_many && TIERED && peers.count <= 2 && p.found <= FLOOD_ENTRIES;
        if (push && !floods) {
            p.is_marked = total > WIDE_ARCS;
            if (p.is_marked) mark_wide(g, s, own_wide, entries, own_arcs);
            else mark_owners(g, s, peers, entries, own_arcs);
            if (!meet(peers, &state->meeting, goal, epoch)) return;
        }
        if (floods) {
            u32* const others = s.queue.starts + FLOOD_ENTRIES;
            forget_parents(g, s, (uint4*)others, all_quads / peers.count);
            grid_barrier(barrier, goal);
            flood_both(g, s, others, entries, own_arcs);
            if (!meet(peers, &state->meeting, goal, epoch)) return;
            const u32 other = peers.count - 1 - peers.own;
            const uint4* const theirs = peers.of<const uint4>(other, peers.starts + FLOOD_ENTRIES * 4ull);
            tally.found = take_flooded_both(g, s, peers, theirs, at_next, p.level);
            p.has_names = false;
            add_from_block(tally.found, sum_for(&state->meeting, epoch), scratch);
            if (!meet(peers, &state->meeting, goal, epoch)) return;
            p.found = total_of(&state->meeting, epoch);
        } else if (push && !is_known) {
            tally.found = take_marked(g, s, peers, p.is_marked, at_next, p.level);
            add_from_block(tally.found, sum_for(&state->meeting, epoch), scratch);
            if (!meet(peers, &state->meeting, goal, epoch)) return;
            lower_parents(g, s, peers, next, entries, own_arcs);
            p.found = total_of(&state->meeting, epoch);
            grid_barrier(barrier, goal); // before the queue is written anew
        } else {
            if (is_known) close_unmarked(g, s, peers, closed);
            else if (!p.few && p.unvisited * OPEN_BELOW < vertices) {
                list_open(g, s, slot, open);
                p.few = true;
                grid_barrier(barrier, goal);
                p.open = __ldcg(&slot->open);
            }
            const bool lists = p.few && !is_known;
            const Front look = {front, lists ? 0 : HUB_QUADS * 4, 0, false};
            if (lists) tally = pull_open(g, s, look, next, slot, open, p.open, NONE, p.level);
            else {
                for (u32 i = threadIdx.x; i < min(HUB_QUADS, all_quads); i += blockDim.x)
                    shared[i] = __ldcg((const uint4*)front + i);
                const bool is_full = p.maps == MAPS;
                if (is_full) {
                    grid_barrier(barrier, goal); // the only ones to write answers now
                    enter_levels(g, s, p.maps, map_levels, false);
                    p.maps = 0;
                }
                if (is_full || is_known) grid_barrier(barrier, goal);
                else __syncthreads();
                if (threadIdx.x == 0) map_levels[p.maps] = p.level;
                u32* const map = maps + p.maps * 4ull * quads;
                const Front hubs = {front, HUB_QUADS * 4, 0, false};
                if (is_known) tally = pull_all<true>(g, s, hubs, next, map, slot, true, closed);
                else tally = pull_all(g, s, hubs, next, map, slot, !p.has_names, visited);
                p.maps++;
                p.has_names |= !is_known;
            }
            grid_barrier(barrier, goal);
            const u32 count = __ldcg(&slot->pieces);
            if (count) {
                const u64 more = pull_long_rows(g, s, look, count).examined;
                grid_barrier(barrier, goal);
                tally.found += claim_long(g, s, next, slot, count, NONE, p.level).found;
                tally.examined += more;
                grid_barrier(barrier, goal);
            }
            tell_found(g, peers, at_next);
            add_from_block(tally.found, sum_for(&state->meeting, epoch), scratch);
            if (!meet(peers, &state->meeting, goal, epoch)) return;
            p.found = total_of(&state->meeting, epoch);
        }
        p.unvisited -= p.found;
        p.cur = (p.cur + 1) % 3;
        p.pushes = push || (p.found * PUSH_BELOW < p.unvisited && p.unvisited > OPEN_ROWS);
#ifdef COUNT
        add_from_block(tally.examined, &trace[min(p.level, traced_levels - 1)].examined, scratch);
#endif
        if (chief && p.level < traced_levels) {
            LevelTrace* const c = trace + p.level;
            c->found = p.found;
            c->pushed = push ? total : 0;
            c->direction = push ? PUSH : PULL;
            c->elapsed = nanoseconds() - started;
        }
    }
    // Others may still lower parents of this device.
    if (!meet(peers, &state->meeting, goal, epoch)) return;
    enter_levels(g, s, p.maps, map_levels, true);
    if (chief) {
        state->levels = p.level;
        state->is_whole = 1;
        if (p.level < traced_levels) trace[p.level].elapsed = nanoseconds() - started;
    }
    leave_grid(barrier);
}
