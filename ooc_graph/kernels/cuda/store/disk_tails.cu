// SSSP on a graph of which only the heads of the rows are within the device's reach: its steps along
// arcs that were fetched. A warp a request; a flag says that its row wants more, if it has more.
#include "disk_sssp.cuh"

// What all of these are given: requests, and the columns that are at hand.
#define FETCHED u32 count, const u32 *requests, const u32 *neighbors, const float *weights, u8 *flags
#define FETCHED_ARCS count, requests, neighbors, weights

// Copies arcs to the heads of their rows, as far as these go.
extern "C" __global__ void hold_arcs(FETCHED, const Heads* heads) {
    over_requests(FETCHED_ARCS, [&](u32 index, u32 row, Arcs arcs) {
        const Arcs head = head_of(*heads, row);
        const u32 cursor = request_word(requests, count, CURSOR, index);
        u32* to_neighbors = const_cast<u32*>(head.neighbors) + cursor;
        float* to_weights = const_cast<float*>(head.weights) + cursor;
        const u32 room = cursor < head.count ? min(arcs.count, head.count - cursor) : 0;
        for (u32 at = threadIdx.x % 32; at < room; at += 32) {
            to_neighbors[at] = arcs.neighbors[at];
            to_weights[at] = arcs.weights[at];
        }
        set_flag(flags, index, true);
    });
}

extern "C" __global__ void push_arcs(FETCHED, u32 bound, u32* distance, u32* improved, u64* counts) {
    u64 examined = 0;
    Push push = {distance, improved, 0, bound, 0, 0};
    over_requests(FETCHED_ARCS, [&](u32 index, u32 row, Arcs arcs) {
        push.at = __shfl_sync(FULL, distance[row], 0); // others may improve it meanwhile
        set_flag(flags, index, along(arcs, 0, push, examined));
    });
    push.count(counts);
    add_to(counts + EXAMINED, examined);
}

extern "C" __global__ void pull_arcs(FETCHED, u32 floor, u32* distance, u32* changed, u64* counts) {
    u64 examined = 0, reached = 0;
    u32 least = TOP;
    over_requests(FETCHED_ARCS, [&](u32 index, u32 row, Arcs arcs) {
        const u32 before = __shfl_sync(FULL, distance[row], 0);
        Pull pull = {distance, floor, TOP, before};
        set_flag(flags, index, along(arcs, 0, pull, examined));
        if (pull.best >= before) return;
        least = min(least, pull.best);
        if (threadIdx.x % 32) return;
        distance[row] = pull.best;
        put(changed, row);
        reached += before == TOP;
    });
    keep_least(counts, least);
    add_to(counts + EXAMINED, examined);
    add_to(counts + EMITTED, reached);
}

extern "C" __global__ void offer_arcs(FETCHED, const u32* distance, u32* parent, u64* counts) {
    u64 examined = 0;
    over_requests(FETCHED_ARCS, [&](u32 index, u32 row, Arcs arcs) {
        Offer offer = {distance, parent, row, distance[row]};
        set_flag(flags, index, along(arcs, 0, offer, examined));
    });
    add_to(counts + EXAMINED, examined);
}

extern "C" __global__ void parent_arcs(FETCHED, u32 floor, const u32* distance, u32* parent, u64* counts) {
    u64 examined = 0;
    over_requests(FETCHED_ARCS, [&](u32 index, u32 row, Arcs arcs) {
        const u32 held = __shfl_sync(FULL, parent[row], 0);
        const u64 before = held == NONE ? ~(u64)0 : (u64)distance[held] << 32 | held;
        Parent found = {distance, distance[row], floor, before};
        set_flag(flags, index, along(arcs, 0, found, examined));
        if (threadIdx.x % 32 == 0) parent[row] = (u32)found.best;
    });
    add_to(counts + EXAMINED, examined);
}

extern "C" __global__ void plateau_arcs(FETCHED, const u32* distance, const u32* lacking, u32* parent, u64* counts) {
    u64 examined = 0;
    over_requests(FETCHED_ARCS, [&](u32 index, u32 row, Arcs arcs) {
        Plateau plateau = {distance, lacking, distance[row], TOP, __shfl_sync(FULL, parent[row], 0)};
        set_flag(flags, index, along(arcs, 0, plateau, examined));
        if (threadIdx.x % 32 == 0) parent[row] = plateau.by;
    });
    add_to(counts + EXAMINED, examined);
}

extern "C" __global__ void spread_arcs(FETCHED, const u32* distance, const u32* lacking, u32* parent, u32* next,
                                       u64* counts) {
    u64 examined = 0;
    over_requests(FETCHED_ARCS, [&](u32 index, u32 row, Arcs arcs) {
        Spread spread = {distance, lacking, parent, next, row, distance[row]};
        set_flag(flags, index, along(arcs, 0, spread, examined));
    });
    add_to(counts + EXAMINED, examined);
}

extern "C" __global__ void lose_arcs(FETCHED, const u32* distance, u64* counts) {
    u64 examined = 0;
    Lost lost = {distance, 0};
    over_requests(FETCHED_ARCS, [&](u32 index, u32, Arcs arcs) {
        set_flag(flags, index, along(arcs, 0, lost, examined));
    });
    add_to(counts + EMITTED, lost.lost);
}
