// SSSP on a graph of which only the heads of the rows are within the device's reach: its steps along
// heads. Steps along what is fetched are in disk_tails.cu.
#include "disk_sssp.cuh"

// Arcs in the heads of rows, and which rows go on beyond them.
extern "C" __global__ void measure_heads(u32 rows, u32 words, u32 least, u32 shift, const u32* lengths, u32* heads,
                                         u32* longer) {
    note_rows(words, longer, [&](u64 row) {
        const u32 length = row < rows ? lengths[row] : 0;
        const u64 wanted = (u64)least + (shift < 32 ? length >> shift : 0);
        const u32 head = (u32)min((u64)length, wanted);
        if (row < rows) heads[row] = head;
        return head < length;
    });
}

// Lists the members of a bitmap, in any order. Another set takes them over, and they leave this one.
extern "C" __global__ void list_members(u32 words, u32* bits, u32* over, u32* queue, u64* counts) {
    over_lanes(words, [&](u64 word, bool real) {
        const u32 found = real ? bits[word] : 0;
        u64 place = take_places(counts + LISTED, (u32)__popc(found));
        if (!found) return;
        for (u32 rest = found; rest; rest &= rest - 1) queue[place++] = (u32)word * 32 + __ffs(rest) - 1;
        if (over == bits) return;
        over[word] |= found;
        bits[word] = 0;
    });
}

// Lists the rows that are reached, in any order.
extern "C" __global__ void list_reached(u32 rows, const u32* distance, u32* queue, u64* counts) {
    over_lanes(rows, [&](u64 row, bool real) {
        const bool there = real && distance[row] != TOP;
        const u32 place = place_in(counts + LISTED, there);
        if (there) queue[place] = (u32)row;
    });
}

// Pushes listed rows along their heads, as far as candidates are `begin` at least and `bound` at most.
// Notes in `more`, where that is given, the rows whose heads end before the bound.
extern "C" __global__ void push_rows(const u64* listed, const u32* queue, const Heads* heads, u32 begin, u32 bound,
                                     u32* distance, u32* improved, u32* more, u64* counts) {
    u64 examined = 0;
    Push push = {distance, improved, 0, bound, 0, 0};
    over_list(*listed, queue, [&](u32 row) {
        const Arcs arcs = head_of(*heads, row);
        push.at = __shfl_sync(FULL, distance[row], 0); // others may improve it meanwhile
        u32 low = 0;
        for (u32 high = begin ? arcs.count : 0; low < high;) {
            const u32 middle = low + (high - low) / 2;
            if (path_sum(push.at, arcs.weights[middle]) < begin) low = middle + 1;
            else high = middle;
        }
        const bool goes = along(arcs, low, push, examined);
        if (more) note_longer(*heads, row, goes, more, counts);
    });
    push.count(counts);
    add_to(counts + EXAMINED, examined);
}

// Smallest candidate above the bound along the heads of waiting rows; those without wait no more.
extern "C" __global__ void least_waiting(u32 words, u32* waiting, const Heads* heads, const u32* distance, u32 bound,
                                         u64* counts) {
    u32 least = TOP;
    note_rows(words, waiting, [&](u64 row) {
        bool stays = has(waiting, row);
        if (stays) {
            const Arcs arcs = head_of(*heads, (u32)row);
            const u32 at = distance[row];
            u32 low = 0;
            for (u32 high = arcs.count; low < high;) {
                const u32 middle = low + (high - low) / 2;
                if (path_sum(at, arcs.weights[middle]) > bound) high = middle;
                else low = middle + 1;
            }
            stays = low < arcs.count;
            if (stays) least = min(least, path_sum(at, arcs.weights[low]));
        }
        return stays;
    });
    keep_least(counts, least);
}

// Smallest distance that arcs beyond the heads of listed rows, or of all, may offer.
extern "C" __global__ void least_beyond(u64 count, const u32* list, const Heads* heads, const u32* distance,
                                        u64* counts) {
    u32 least = TOP;
    over_lanes(count, [&](u64 index, bool real) {
        const u32 row = !real ? 0 : list ? list[index] : (u32)index;
        if (!real || distance[row] == TOP || !has(heads->longer, row)) return;
        const Arcs arcs = head_of(*heads, row);
        least = min(least, path_sum(distance[row], arcs.weights[arcs.count - 1]));
    });
    keep_least(counts, least);
}

// Rows beyond `final` look along their heads for a shorter way. Notes those that are nearer now, and
// those that go on beyond their heads; counts the latter and rows that were not reached before.
extern "C" __global__ void pull_rows(u32 rows, u32 words, const Heads* heads, u32 final, u32 floor, u32* distance,
                                     u32* changed, u32* wanting, u64* counts) {
    u64 examined = 0, reached = 0, longer = 0;
    u32 least = TOP;
    over_lanes((u64)words * 32, [&](u64 row, bool) {
        const u32 before = row < rows ? distance[row] : 0;
        const bool open = row < rows && before > final;
        const Arcs arcs = open ? head_of(*heads, (u32)row) : Arcs{nullptr, nullptr, 0};
        Pull pull = {distance, floor, TOP, before};
        bool goes = along_each(arcs, open, pull, examined);
        if (goes) goes = has(heads->longer, row) && path_sum(floor, arcs.weights[arcs.count - 1]) < pull.best;
        const bool better = open && pull.best < before;
        if (better) {
            distance[row] = pull.best;
            least = min(least, pull.best);
        }
        reached += better && before == TOP;
        longer += goes;
        const u32 nearer = __ballot_sync(FULL, better), more = __ballot_sync(FULL, goes);
        if (threadIdx.x % 32) return;
        changed[row / 32] = nearer;
        wanting[row / 32] = more;
    });
    keep_least(counts, least);
    add_to(counts + EXAMINED, examined);
    add_to(counts + EMITTED, reached);
    add_to(counts + KEPT, longer);
}

// Counts the members of a set, the arcs in their heads, and those that go on beyond, which it notes.
extern "C" __global__ void count_members(u32 words, const u32* bits, const Heads* heads, u32* more, u64* counts) {
    u64 members = 0, arcs = 0, longer = 0;
    over_lanes(words, [&](u64 word, bool real) {
        if (!real) return;
        const u32 found = bits[word], beyond = found & heads->longer[word];
        for (u32 rest = found; rest; rest &= rest - 1) {
            const u32 row = (u32)word * 32 + __ffs(rest) - 1;
            arcs += heads->starts[row + 1] - heads->starts[row];
        }
        members += __popc(found);
        longer += __popc(beyond);
        more[word] = beyond;
    });
    add_to(counts + LISTED, members);
    add_to(counts + ARCS, arcs);
    add_to(counts + KEPT, longer);
}

// Largest distance of all that is reached.
extern "C" __global__ void farthest(u32 rows, const u32* distance, u64* counts) {
    u32 most = 0;
    over_lanes(rows, [&](u64 row, bool real) {
        if (real && distance[row] != TOP) most = max(most, distance[row]);
    });
    most = __reduce_max_sync(FULL, most);
    if (threadIdx.x % 32 == 0) atomicMax(counts + LISTED, (u64)most);
}

// Offers the listed rows below `floor` as parents along their heads; notes those that go on.
extern "C" __global__ void offer_rows(const u64* listed, const u32* queue, const Heads* heads, u32 floor,
                                      const u32* distance, u32* parent, u32* more, u64* counts) {
    u64 examined = 0;
    over_list(*listed, queue, [&](u32 row) {
        if (distance[row] >= floor) return;
        Offer offer = {distance, parent, row, distance[row]};
        along(head_of(*heads, row), 0, offer, examined);
        note_longer(*heads, row, true, more, counts);
    });
    add_to(counts + EXAMINED, examined);
}

// Reached rows without a parent look for one along their heads; notes those that must go on.
extern "C" __global__ void parent_rows(u32 rows, u32 words, const Heads* heads, u32 floor, const u32* distance,
                                       u32* parent, u32* wanting, u64* counts) {
    u64 examined = 0, longer = 0;
    over_lanes((u64)words * 32, [&](u64 row, bool) {
        const u32 at = row < rows ? distance[row] : TOP;
        const bool open = at != TOP && parent[row] == NONE;
        const Arcs arcs = open ? head_of(*heads, (u32)row) : Arcs{nullptr, nullptr, 0};
        Parent found = {distance, at, floor, ~(u64)0};
        bool goes = along_each(arcs, open, found, examined);
        if (goes) goes = has(heads->longer, row) && path_sum(floor, arcs.weights[arcs.count - 1]) <= at;
        if (open) parent[row] = (u32)found.best;
        longer += goes;
        const u32 more = __ballot_sync(FULL, goes);
        if (threadIdx.x % 32 == 0) wanting[row / 32] = more;
    });
    add_to(counts + EXAMINED, examined);
    add_to(counts + KEPT, longer);
}

// Notes and counts the reached rows that have no parent.
extern "C" __global__ void note_lacking(u32 rows, u32 words, const u32* distance, const u32* parent, u32* lacking,
                                        u64* counts) {
    const u64 count = note_rows(words, lacking, [&](u64 row) {
        return row < rows && distance[row] != TOP && parent[row] == NONE;
    });
    add_to(counts + LISTED, count);
}

// Rows that lack a parent take the smallest on their plateau that does not; notes those that go on.
extern "C" __global__ void plateau_rows(u32 words, const u32* lacking, const Heads* heads, const u32* distance,
                                        u32* parent, u32* more, u64* counts) {
    u64 examined = 0;
    over_members(words, lacking, [&](u32 row) {
        Plateau plateau = {distance, lacking, distance[row], TOP, NONE};
        const bool goes = along(head_of(*heads, row), 0, plateau, examined);
        if (threadIdx.x % 32 == 0) parent[row] = plateau.by;
        note_longer(*heads, row, goes, more, counts);
    });
    add_to(counts + EXAMINED, examined);
}

// Rows that lacked a parent and have one leave `lacking` for `found`.
extern "C" __global__ void take_found(u32 words, u32* lacking, const u32* parent, u32* found, u64* counts) {
    u64 count = 0;
    over_lanes((u64)words * 32, [&](u64 row, bool) {
        const u32 before = lacking[row / 32];
        const bool has_one = before >> (row & 31) & 1 && parent[row] != NONE;
        const u32 bits = __ballot_sync(FULL, has_one);
        count += has_one;
        if (threadIdx.x % 32) return;
        found[row / 32] = bits;
        lacking[row / 32] = before & ~bits;
    });
    add_to(counts + LISTED, count);
}

// Rows that found a parent a hop ago are offered along their heads to those on their plateau.
extern "C" __global__ void spread_rows(u32 words, const u32* found, const Heads* heads, const u32* distance,
                                       const u32* lacking, u32* parent, u32* next, u32* more, u64* counts) {
    u64 examined = 0;
    over_members(words, found, [&](u32 row) {
        Spread spread = {distance, lacking, parent, next, row, distance[row]};
        const bool goes = along(head_of(*heads, row), 0, spread, examined);
        note_longer(*heads, row, goes, more, counts);
    });
    add_to(counts + EXAMINED, examined);
}

// A hop is over: those that found a parent in it lack one no more, and are the next to be offered.
extern "C" __global__ void settle_hop(u32 words, u32* lacking, u32* found, u32* next, u64* counts) {
    u64 count = 0;
    over_lanes(words, [&](u64 word, bool real) {
        if (!real) return;
        const u32 bits = next[word];
        lacking[word] &= ~bits;
        found[word] = bits;
        next[word] = 0;
        count += __popc(bits);
    });
    add_to(counts + LISTED, count);
}

// Notes and counts the rows from which a path may be longer than a distance can tell.
extern "C" __global__ void note_far(u32 rows, u32 words, float heaviest, const u32* distance, u32* far, u64* counts) {
    const u64 count = note_rows(words, far, [&](u64 row) {
        const u32 at = row < rows ? distance[row] : TOP;
        return at != TOP && path_sum(at, heaviest) == TOP;
    });
    add_to(counts + LISTED, count);
}

// Counts neighbours out of reach along the heads of these rows; notes those that go on.
extern "C" __global__ void lose_rows(u32 words, const u32* far, const Heads* heads, const u32* distance, u32* more,
                                     u64* counts) {
    u64 examined = 0;
    Lost lost = {distance, 0};
    over_members(words, far, [&](u32 row) {
        along(head_of(*heads, row), 0, lost, examined);
        note_longer(*heads, row, true, more, counts);
    });
    add_to(counts + EMITTED, lost.lost);
}
