// BFS steps on a graph whose rows are in the store: of each row the first arcs are at hand, in columns
// on the device or in host memory that it reads; others come in units, a batch at a time.
#include "rank.cuh"

// Parts of a search count here what `rank.cuh` names: LISTED rows found, KEPT rows that go on.

// Arcs of rows that are held whole which a warp takes at a time.
#define WHOLE_ARCS 1024u

// A row's first arc is in `head`; behind it columns of four, the k-th of which has all rows of more than
// 1 + 4 * k arcs. NONE stands where a row has no more.
struct Held {
    const u32* length;
    const u32* head;
    const uint4* const* column;
    u32 columns;

    __device__ __forceinline__ u32 arcs() const { return 1 + 4 * columns; }
};

// Nothing is reached; rows that no arc leads to, and padding, count as visited.
extern "C" __global__ void begin_search(u32 rows, u32 words, const u32* into_length, u32* parent, int* level,
                                        u32* visited, u32* found) {
    over_lanes((u64)words * 32, [&](u64 row, bool) {
        const bool there = row < rows;
        const u32 bits = __ballot_sync(FULL, !there || into_length[row] == 0);
        parent[row] = NONE;
        level[row] = -1;
        if (threadIdx.x % 32) return;
        visited[row / 32] = bits;
        found[row / 32] = 0;
    });
}

// The root is found before the first level.
extern "C" __global__ void find_root(u32 root, u32* parent, u32* found) {
    if (blockIdx.x || threadIdx.x) return;
    parent[root] = root;
    found[root >> 5] = bit_in_word(root);
}

// Rows found become visited at this depth; how many they are, and their out-arcs.
extern "C" __global__ void settle_found(u32 words, const u32* found, const u32* out_length, int depth, u32* visited,
                                        int* level, u64* counts) {
    u64 count = 0, arcs = 0;
    over_lanes((u64)words * 32, [&](u64 row, bool) {
        const u32 bits = found[row / 32];
        if (!bits) return;  // the same word for all lanes
        if (has(found, row)) {
            level[row] = depth;
            arcs += out_length[row];
            count++;
        }
        if (threadIdx.x % 32 == 0) visited[row / 32] |= bits;
    });
    add_to(counts + LISTED, count);
    add_to(counts + ARCS, arcs);
}

// The place of the first member of the frontier among four; 4 where there is none.
__device__ __forceinline__ u32 first_of(const u32* frontier, uint4 four) {
    const bool x = four.x != NONE && has(frontier, four.x), y = four.y != NONE && has(frontier, four.y);
    const bool z = four.z != NONE && has(frontier, four.z), w = four.w != NONE && has(frontier, four.w);
    return x ? 0 : y ? 1 : z ? 2 : w ? 3 : 4;
}

__device__ __forceinline__ u32 one_of(uint4 four, u32 place) {
    return place == 0 ? four.x : place == 1 ? four.y : place == 2 ? four.z : four.w;
}

// Rows not visited take the first member of the frontier as parent that is at hand: rows ascend, so it
// is the smallest. `left` becomes those that found none and go on.
extern "C" __global__ void pull_held(u32 rows, u32 words, const u32* length, const u32* head, u32 columns,
                                     const uint4* const* column, const u32* frontier, const u32* visited,
                                     u32* parent, u32* found, u32* left, u64* counts) {
    const Held held = {length, head, column, columns};
    u64 kept = 0, examined = 0;
    over_lanes((u64)words * 32, [&](u64 row, bool) {
        const u32 before = visited[row / 32];
        const bool open = row < rows && !has(visited, row);
        u32 arcs = 0, by = NONE;
        if (open) {
            arcs = held.length[row];
            const u32 first = held.head[row];
            examined++;
            if (first != NONE && has(frontier, first)) by = first;
        }
        for (u32 k = 0; k < held.columns && by == NONE && arcs > 1 + 4 * k; k++) {
            const uint4 four = held.column[k][row];
            const u32 place = first_of(frontier, four);
            if (place < 4) by = one_of(four, place);
            examined += min(place < 4 ? place + 1 : 4, arcs - 1 - 4 * k);
        }
        const bool goes_on = by == NONE && arcs > held.arcs();
        kept += goes_on;
        if (by != NONE) parent[row] = by;
        const u32 taken = __ballot_sync(FULL, by != NONE), on = __ballot_sync(FULL, goes_on);
        if (threadIdx.x % 32 == 0) {
            found[row / 32] = taken & ~before;
            left[row / 32] = on;
        }
    });
    add_to(counts + KEPT, kept);
    add_to(counts + EXAMINED, examined);
}

__device__ __forceinline__ void claim(u32 v, u32 row, const u32* visited, u32* parent, u32* found) {
    if (has(visited, v)) return;
    atomicMin(parent + v, row);
    if (!has(found, v)) atomicOr(found + (v >> 5), bit_in_word(v));
}

// Rows of the frontier among `count` from `first` on claim all neighbours; the smallest parent counts.
// Their arcs are one row's after the other's, on the device or in host memory, starts[i] before each.
extern "C" __global__ void push_whole(u32 first, u32 count, const u64* starts, const u32* arcs, const u32* frontier,
                                      const u32* visited, u32* parent, u32* found) {
    const u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = (u64)gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    const u64 all = starts[count];
    for (u64 low = warp * WHOLE_ARCS; low < all; low += warps * WHOLE_ARCS) {
        const u64 stop = min(low + WHOLE_ARCS, all);
        for (u32 i = entry_of(starts, 0, count, low); i < count && starts[i] < stop; i++) {
            if (!has(frontier, first + i)) continue;
            const u64 end = min(stop, starts[i + 1]);
            for (u64 a = max(low, starts[i]) + lane; a < end; a += 32) claim(arcs[a], first + i, visited, parent, found);
        }
    }
}

// The frontier's rows from `whole` on that have out-arcs, where none of those are at hand.
extern "C" __global__ void leave_frontier(u32 rows, u32 words, const u32* out_length, u32 whole, const u32* frontier,
                                          u32* left, u64* counts) {
    const u64 kept = note_rows(words, left, [&](u64 row) {
        return row < rows && row >= whole && has(frontier, row) && out_length[row];
    });
    add_to(counts + KEPT, kept);
}

// Rows of the frontier from `whole` on claim the neighbours that are at hand. `left` becomes those that
// go on.
extern "C" __global__ void push_held(u32 rows, u32 words, u32 whole, const u32* length, const u32* head, u32 columns,
                                     const uint4* const* column, const u32* frontier, const u32* visited,
                                     u32* parent, u32* found, u32* left, u64* counts) {
    const Held held = {length, head, column, columns};
    const u64 kept = note_rows(words, left, [&](u64 row) {
        const bool mine = row < rows && row >= whole && has(frontier, row);
        const u32 arcs = mine ? held.length[row] : 0;
        if (arcs) claim(held.head[row], (u32)row, visited, parent, found);
        for (u32 k = 0; k < held.columns && arcs > 1 + 4 * k; k++) {
            const uint4 four = held.column[k][row];
            const u32 count = min(arcs - 1 - 4 * k, 4u);
            for (u32 j = 0; j < count; j++) claim(one_of(four, j), (u32)row, visited, parent, found);
        }
        return arcs > held.arcs();
    });
    add_to(counts + KEPT, kept);
}

// Requests: `asked` arcs of a row, from `place` on in the units at hand. A warp looks at those of a row
// for the first member of the frontier; `hit` says whether there was one.
extern "C" __global__ void pull_units(u32 count, const i64* row, const i64* place, const i64* asked, const u32* units,
                                      const u32* frontier, u32* parent, u32* found, u8* hit, u64* counts) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    u64 examined = 0;
    for (u32 i = warp; i < count; i += warps) {
        u32 by = NONE;
        const u64 looked = look_for(by, frontier, units + place[i], 0, (u64)asked[i]);
        if (lane) continue;
        examined += looked;
        hit[i] = by != NONE;
        if (by == NONE) continue;
        const u32 v = (u32)row[i];
        parent[v] = by;
        atomicOr(found + (v >> 5), bit_in_word(v));
    }
    add_to(counts + EXAMINED, examined);
}

// Requests as of `pull_units`, starts[i] arcs before each; rows of the frontier claim what they ask for.
extern "C" __global__ void push_units(u32 count, const u64* starts, const i64* row, const i64* place, const u32* units,
                                      const u32* visited, u32* parent, u32* found) {
    over_shares(count, starts, [&](u32 entry, u64 k) {
        if (entry != NONE) claim(units[place[entry] + k], (u32)row[entry], visited, parent, found);
    });
}

// Requests as of `pull_units`, of rows from their first arcs on: what they ask for goes to its places.
extern "C" __global__ void hold_units(u32 count, const i64* row, const i64* place, const i64* asked, const u32* units,
                                      u32 columns, u32* head, uint4* const* column) {
    over_lanes((u64)count * (columns + 1), [&](u64 one, bool real) {
        if (!real) return;
        const u32 i = (u32)(one % count), k = (u32)(one / count);
        const u32* arcs = units + place[i];
        const u32 have = (u32)asked[i], first = k ? 4 * k - 3 : 0;
        if (have <= first) return;
        if (!k) {
            head[row[i]] = arcs[0];
            return;
        }
        uint4 four = make_uint4(arcs[first], NONE, NONE, NONE);
        if (have > first + 1) four.y = arcs[first + 1];
        if (have > first + 2) four.z = arcs[first + 2];
        if (have > first + 3) four.w = arcs[first + 3];
        column[k - 1][row[i]] = four;
    });
}
