// Targets of candidates in a hash table, each once: keys are all ones where a slot is free. The host
// makes it twice as large as what is put into it before it is emptied.
#pragma once
#include "rank.cuh"

// `last`: the number of slots, a power of two, minus one; keys; which slots are taken, in the order in which they were.
#define TABLE u64 last, VERTEX *keys, u32 *taken

// Slot of a target, which takes one if it has none: `is_new` then.
__device__ __forceinline__ u64 slot_of(VERTEX target, u64 last, VERTEX* keys, bool& is_new) {
    is_new = false;
    for (u64 slot = (target * 0x9E3779B97F4A7C15ull >> 32) & last;; slot = (slot + 1) & last) {
        VERTEX there = *(volatile VERTEX*)(keys + slot);
        if (there == NO_VERTEX) {
            there = atomicCAS(keys + slot, NO_VERTEX, target);
            is_new = there == NO_VERTEX;
        }
        if (is_new || there == target) return slot;
    }
}

// Notes a slot that is new; whole warps call it.
__device__ __forceinline__ void note_slot(u64 slot, bool is_new, u32* taken, u64* counts) {
    const VERTEX place = place_in(counts + EMITTED, is_new);
    if (is_new) taken[place] = (u32)slot;
}
