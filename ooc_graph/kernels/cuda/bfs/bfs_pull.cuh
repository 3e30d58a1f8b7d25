// BFS bottom-up over all rows: they look for the first of their neighbours that the frontier holds.
#pragma once
#include "bfs_tails.cuh"

// First neighbours of a quad's open rows, four a lane.
__device__ __forceinline__ uint4 load_heads(const Graph& g, u32 quad, u32 seen) {
    uint4 heads = make_uint4(NONE, NONE, NONE, NONE);
    if (seen != 15) heads = __ldcs((const uint4*)g.head + quad * 32 + threadIdx.x % 32);
    if (seen & 1) heads.x = NONE;
    if (seen & 2) heads.y = NONE;
    if (seen & 4) heads.z = NONE;
    if (seen & 8) heads.w = NONE;
    return heads;
}

// What lane `from` holds of its quad, for this lane's four rows.
__device__ __forceinline__ u32 four_from(uint4 words, u32 from) {
    return four_of(make_uint4(__shfl_sync(FULL, words.x, from), __shfl_sync(FULL, words.y, from),
                              __shfl_sync(FULL, words.z, from), __shfl_sync(FULL, words.w, from)));
}

// First neighbours of a quad, the `which`-th of a warp: rows that have found theirs become `hits`;
// rows that continue are kept in the buffer. Returns how many are there.
__device__ __forceinline__ u32 pull_quad(const Graph& g, const Front& front, uint4 heads, u32 quad, u32 which, u32 kept,
                                         WarpBuffer& buffer, uint4& hits, Tally& tally) {
    const u32 lane = threadIdx.x % 32, row = quad * 128 + 4 * lane;
    const u32 x = word_of(front, heads.x), y = word_of(front, heads.y), z = word_of(front, heads.z),
              w = word_of(front, heads.w);
    const bool hit[4] = {(x & bit_at(heads.x)) != 0, (y & bit_at(heads.y)) != 0, (z & bit_at(heads.z)) != 0,
                         (w & bit_at(heads.w)) != 0};
    const bool waits[4] = {!hit[0] && heads.x != NONE && row < g.longer1,
                           !hit[1] && heads.y != NONE && row + 1 < g.longer1,
                           !hit[2] && heads.z != NONE && row + 2 < g.longer1,
                           !hit[3] && heads.w != NONE && row + 3 < g.longer1};
#ifdef COUNT
    tally.examined += (heads.x != NONE) + (heads.y != NONE) + (heads.z != NONE) + (heads.w != NONE);
#endif
    const uint4 got = make_uint4(__ballot_sync(FULL, hit[0]), __ballot_sync(FULL, hit[1]), __ballot_sync(FULL, hit[2]),
                                 __ballot_sync(FULL, hit[3]));
    if (lane == which) hits = got;
    if (__any_sync(FULL, waits[0] || waits[1] || waits[2] || waits[3])) {
        u32 at = kept;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const u32 waiting = __ballot_sync(FULL, waits[j]);
            at += __popc(waiting & ((1u << lane) - 1));
            kept += __popc(waiting);
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (waits[j]) buffer.rows[at++] = which * 128 + 4 * lane + j;
        // Two rows' heads to a sector of memory.
#if TIERED
        if (!g.columns) return kept;
#endif
        if (waits[0] || waits[1]) prefetch(g.heads + row);
        if (waits[2] || waits[3]) prefetch(g.heads + row + 2);
    }
    return kept;
}

// Enters a row that has found its parent.
__device__ __forceinline__ void claim_kept(const Search& s, WarpBuffer& buffer, u32 v, u32 which, u32 parent) {
    s.parent[v] = parent;
    atomicOr(buffer.got + which * 4 + (v & 3), bit_at(v));
}

// The heads behind the first for `kept` rows of the buffer, and then the tails of those that continue,
// which take their places there. Loads for the next 32 rows are under way while these are looked
// at, and the rows behind those are known by then; so are the parents' original ids under way.
__device__ __forceinline__ void pull_kept(const Graph& g, const Search& s, const Front& front, Slot* slot, u32 first,
                                          u32 warps, WarpBuffer& buffer, u32 kept, Tally& tally) {
    const u32 lane = threadIdx.x % 32;
    const uint4 none = make_uint4(NONE, NONE, NONE, NONE);
    auto vertex_of = [&](u32 row) { return row == NONE ? NONE : (first + row / 128 * warps) * 128 + row % 128; };
    u32 row = lane < kept ? buffer.rows[lane] : NONE, v = vertex_of(row);
    u32 next_row = lane + 32 < kept ? buffer.rows[lane + 32] : NONE;
    uint4 four = v < ROWS_OF_FOUR(g) ? __ldcs(g.heads + v) : none;
    uint4 last = v < g.longer5 ? __ldcs(g.heads + g.longer1 + v) : none;
    u32 claimed = NONE, claimed_in = 0, parent = 0, rests = 0;
    __syncwarp();
    for (u32 k = lane; k - lane < kept; k += 32) {
        const u32 next_v = vertex_of(next_row);
        const uint4 next_four = next_v < ROWS_OF_FOUR(g) ? __ldcs(g.heads + next_v) : none;
        const uint4 next_last = next_v < g.longer5 ? __ldcs(g.heads + g.longer1 + next_v) : none;
        const u32 after_row = k + 64 < kept ? buffer.rows[k + 64] : NONE;
        u32 member = first_of(front, four, tally);
        if (member == NONE && last.x != NONE) member = first_of(front, last, tally);
        const bool rest = member == NONE && GOES_ON(g, v, four, last);
        const u32 going = __ballot_sync(FULL, rest);
        if (rest) {
            buffer.rows[rests + __popc(going & ((1u << lane) - 1))] = row;
            prefetch(g.in_offsets + v);
        }
        rests += __popc(going);
        if (claimed != NONE) claim_kept(s, buffer, claimed, claimed_in, parent);
        claimed = NONE;
        if (member != NONE) {
            claimed = v;
            claimed_in = row / 128;
            parent = name_of(g, member);
        }
        row = next_row;
        next_row = after_row;
        v = next_v;
        four = next_four;
        last = next_last;
        __syncwarp(); // the next rows have been read before their places are taken
    }
    if (claimed != NONE) claim_kept(s, buffer, claimed, claimed_in, parent);
    for (u32 k = lane; k - lane < rests; k += 32) {
        row = k < rests ? buffer.rows[k] : NONE;
        v = vertex_of(row);
        const u32 member = scan_tails(g, s, front, slot, v, tally);
        if (member != NONE) claim_kept(s, buffer, v, row / 128, name_of(g, member));
    }
}

// Asks for the first neighbours of the next quads' open rows, a line of 32 a lane, and for their names.
__device__ __forceinline__ void prefetch_quads(const Graph& g, u32 first, u32 warps, uint4 seen, bool names) {
    const u32 lane = threadIdx.x % 32, all = seen.x & seen.y & seen.z & seen.w;
    const u32 lines = __shfl_sync(FULL, all, lane / 4) >> lane % 4 * 8 & 255;
    const u32 row = (first + lane / 4 * warps) * 128 + lane % 4 * 32;
    if (lines != 255) prefetch(g.head + row);
    if (lines != 255 && names) prefetch(g.head_original + row);
}

__device__ __forceinline__ uint4 load_seen(const Graph& g, const u32* seen, u32 first, u32 warps) {
    const u32 lane = threadIdx.x % 32, own = first + lane * warps;
    const bool real = lane < WARP_QUADS && own < g.quads;
    return real ? __ldcg((const uint4*)seen + own) : make_uint4(FULL, FULL, FULL, FULL);
}

// Enters their first neighbours' names as parents of its quads' open rows, whole lines at a time.
__device__ __forceinline__ void name_quads(const Graph& g, const Search& s, u32 first, u32 warps, uint4 seen) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 part = 0; part < WARP_QUADS; part += 4) {
        u32 open[4];
        uint4 names[4];
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            open[i] = 15 & ~four_from(seen, part + i);
            names[i] = make_uint4(NONE, NONE, NONE, NONE);
            if (open[i])
                names[i] = __ldcs((const uint4*)g.head_original + (first + (part + i) * warps) * 32 + lane);
        }
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const u32 at = (first + (part + i) * warps) * 32 + lane;
            if (open[i] == 15) ((uint4*)s.parent)[at] = names[i];
            else if (open[i]) {
                if (open[i] & 1) s.parent[at * 4] = names[i].x;
                if (open[i] & 2) s.parent[at * 4 + 1] = names[i].y;
                if (open[i] & 4) s.parent[at * 4 + 2] = names[i].z;
                if (open[i] & 8) s.parent[at * 4 + 3] = names[i].w;
            }
        }
    }
    __syncwarp(); // before other lanes enter other parents
}

// All rows not visited yet. A warp takes WARP_QUADS that lie apart, so that it has of all kinds of rows.
// The first time (`name`) all rows get their first neighbour as parent, in order, before it is known
// whether they are found by it: from then on only rows that are found by another one enter a parent, and
// levels are bits of `map` until they are entered. `closed` is `s.visited`; if KNOWN, all others are found.
template <bool KNOWN = false>
__device__ __forceinline__ Tally pull_all(const Graph& g, const Search& s, const Front& front, u32* next, u32* map,
                                          Slot* slot, bool name, const u32* closed) {
    WarpBuffer& buffer = own_buffer();
    Tally tally = {};
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32;
    uint4 seen = load_seen(g, closed, warp, warps);
    for (u32 first = warp; first < g.quads; first += WARP_QUADS * warps) {
        const uint4 coming = load_seen(g, closed, first + WARP_QUADS * warps, warps);
        uint4 hits = make_uint4(0, 0, 0, 0), got = hits;
        u32 todo = __ballot_sync(FULL, (seen.x & seen.y & seen.z & seen.w) != FULL), kept = 0;
        u32 which = __ffs(todo) - 1;
        uint4 heads = hits;
        if (todo) heads = load_heads(g, first + which * warps, four_from(seen, which));
        prefetch_quads(g, first + WARP_QUADS * warps, warps, coming, name);
        if (name) name_quads(g, s, first, warps, seen);
        while (todo) {
            todo &= todo - 1;
            const u32 quad = first + which * warps, after = todo ? __ffs(todo) - 1 : which;
            uint4 ahead = heads;
            if (todo) ahead = load_heads(g, first + after * warps, four_from(seen, after));
            kept = pull_quad(g, front, heads, quad, which, kept, buffer, hits, tally);
            heads = ahead;
            which = after;
        }
        if (kept) {
            buffer.got[lane] = 0;
            __syncwarp();
            pull_kept(g, s, front, slot, first, warps, buffer, kept, tally);
            __syncwarp();
            if (lane < WARP_QUADS) got = ((uint4*)buffer.got)[lane];
        }
        const u32 own = first + lane * warps;
        if (lane < WARP_QUADS && own < g.quads) {
            got = both(got, hits);
            ((uint4*)next)[front_quad(g, own)] = got;
            ((uint4*)map)[own] = got;
            if (got.x | got.y | got.z | got.w) {
                ((uint4*)s.visited)[own] = both(KNOWN ? __ldcg((const uint4*)s.visited + own) : seen, got);
                tally.found += count_of(got);
            }
        }
        __syncwarp();
        seen = coming;
    }
    return tally;
}

// Enters the levels of the rows in the first `count` maps; at last also what there is to say of rows
// that no level has claimed. A warp takes WARP_QUADS quads in a row, so that a map's words for it are
// one line; the lines of its next quads are under way meanwhile.
__device__ __noinline__ void enter_levels(const Graph g, const Search s, u32 count, const u32* levels, bool last) {
    WarpBuffer& buffer = own_buffer();
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32;
    const u32 lane = threadIdx.x % 32, words = g.quads * 4;
    u32 coming[MAPS + 1];
    auto load = [&](u32 first) {
        const u32 at = first * 4 + lane;
#pragma unroll
        for (u32 k = 0; k < MAPS; k++)
            coming[k] = k < count && at < words ? __ldcg(s.maps + (u64)k * words + at) : 0;
        coming[MAPS] = last && at < words ? ~__ldcg(s.visited + at) : 0;
    };
    load(warp * WARP_QUADS);
    for (u32 first = warp * WARP_QUADS; first < g.quads; first += warps * WARP_QUADS) {
#pragma unroll
        for (u32 k = 0; k <= MAPS; k++) buffer.words[k * 32 + lane] = coming[k];
        __syncwarp();
        load(first + warps * WARP_QUADS);
        for (u32 i = 0; i < WARP_QUADS && first + i < g.quads; i++) {
            const u32 at = (first + i) * 32 + lane, open = four_of(((const uint4*)buffer.words)[MAPS * WARP_QUADS + i]);
            Levels four(open, UNREACHED);
            for (u32 k = 0; k < count; k++)
                four.add(four_of(((const uint4*)buffer.words)[k * WARP_QUADS + i]), levels[k]);
            four.enter(s, at);
            if (open == 15) ((uint4*)s.parent)[at] = make_uint4(NONE, NONE, NONE, NONE);
            else if (open)
                for (u32 j = 0; j < 4; j++)
                    if (open >> j & 1) s.parent[at * 4 + j] = NONE;
        }
        __syncwarp();
    }
}
