// Devices that reach each other's memory: what each opens to the others, and a barrier over all blocks of all.
#pragma once
#include "grid.cuh"

// Nanoseconds that a device waits for another one: then it leaves, and all others do so too.
#ifndef PATIENCE_NS
#define PATIENCE_NS 10000000000ull
#endif
#define MOST_PEERS 64
#define LOST 0xFFFFFFFFu

// What others write to tell a device of a meeting; each value in a line of its own.
struct Mail {
    struct Line {
        u32 epoch;
        u32 unused;
        u64 sums[2]; // in turn, since another device may be one meeting ahead
        u64 padding[13];
    } from[MOST_PEERS];
};
static_assert(sizeof(Mail) == MOST_PEERS * 128, "the caller reserves so much");

// What the blocks of a device need to meet those of the others; zero before the first search.
struct Meeting {
    Barrier barrier;
    u32 released;            // the last meeting that all have come to, or LOST
    u32 unused;
    u64 sums[2];             // what the blocks bring to a meeting, in turn
    u64 totals[2];           // and what all devices brought
};

// The ranks of a search, each on its device: where in this process its open memory begins.
struct Peers {
    const u64* bases;
    u32 count, own;
    u64 fronts, wide, marks, parent, starts; // bytes from there to these arrays

    template <typename Word>
    __device__ __forceinline__ Word* of(u32 rank, u64 offset) const {
        return (Word*)(__ldg(bases + rank) + offset);
    }
};

__device__ __forceinline__ u32 load_acquire_system(const u32* at) {
    u32 value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

__device__ __forceinline__ void store_release_system(u32* at, u32 value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

// Of memory that other devices write.
__device__ __forceinline__ uint4 load_system(const uint4* at) {
    uint4 value;
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(at) : "memory");
    return value;
}

// The first thread of the grid tells the others that this device has come, and waits for them.
__device__ __noinline__ void meet_others(const Peers peers, Meeting* meeting, u32 epoch, u64 deadline) {
    const u32 turn = epoch & 1;
    for (u32 rank = 0; rank < peers.count; rank++) {
        Mail::Line* const line = peers.of<Mail>(rank, 0)->from + peers.own;
        *(volatile u64*)(line->sums + turn) = __ldcg(meeting->sums + turn);
    }
    __threadfence_system();
    for (u32 rank = 0; rank < peers.count; rank++)
        store_release_system(&peers.of<Mail>(rank, 0)->from[peers.own].epoch, epoch);
    const Mail* const mail = peers.of<Mail>(peers.own, 0);
    u64 total = 0;
    for (u32 rank = 0; rank < peers.count; rank++) {
        while ((int)(load_acquire_system(&mail->from[rank].epoch) - epoch) < 0)
            if (nanoseconds() > deadline) {
                atomicExch(&meeting->released, LOST);
                return;
            }
        total += *(const volatile u64*)(mail->from[rank].sums + turn);
    }
    meeting->totals[turn] = total;
    meeting->sums[turn] = 0; // until the meeting after the next one
    __threadfence_system();
    atomicExch(&meeting->released, epoch);
}

// All blocks of all devices wait for each other; what they wrote before, wherever it is, is seen by all
// after. False if some device did not come: then there is no use in going on. `goal` is as of
// `block_barrier`, and `epoch` counts meetings.
__device__ __forceinline__ bool meet(const Peers& peers, Meeting* meeting, u32& goal, u32& epoch) {
    __shared__ bool lost;
    epoch++;
    goal += gridDim.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        atomicAdd(&meeting->barrier.arrived, 1u);
        if (blockIdx.x == 0) {
            const u64 deadline = nanoseconds() + PATIENCE_NS;
            bool has_come = false; // all of this device
            while (!has_come && nanoseconds() < deadline)
                has_come = (int)(load_acquire(&meeting->barrier.arrived) - goal) >= 0;
            __threadfence_system();
            if (has_come) meet_others(peers, meeting, epoch, nanoseconds() + PATIENCE_NS);
            else atomicExch(&meeting->released, LOST);
        }
        u32 released = load_acquire(&meeting->released);
        while (released != LOST && (int)(released - epoch) < 0) released = load_acquire(&meeting->released);
        __threadfence_system();
        lost = released == LOST;
    }
    __syncthreads();
    return !lost;
}

// What all devices brought to the last meeting, and where blocks add what they bring to the next.
__device__ __forceinline__ u64 total_of(const Meeting* meeting, u32 epoch) {
    return __ldcg(meeting->totals + (epoch & 1));
}

__device__ __forceinline__ u64* sum_for(Meeting* meeting, u32 epoch) { return meeting->sums + ((epoch + 1) & 1); }
