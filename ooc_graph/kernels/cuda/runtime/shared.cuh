// Shared memory by addresses that are worked out once, and accesses of single lanes without branches.
// Left to itself the compiler reads a special register at each access, and branches around each
// atomic: several of them in a row then wait for each other.
#pragma once
#include "grid.cuh"

// The address stays in a register: what is volatile is not worked out again.
__device__ __forceinline__ u32 shared_address(const void* at) {
    u32 address;
    asm volatile("mov.u32 %0, %1;" : "=r"(address) : "r"((u32)__cvta_generic_to_shared(at)));
    return address;
}

__device__ __forceinline__ uint4 load_shared(u32 at) {
    uint4 value;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "r"(at) : "memory");
    return value;
}

__device__ __forceinline__ void store_shared(u32 at, uint4 value) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                 :: "r"(at), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w) : "memory");
}

// Returns what was there before; all ones, and does nothing, where `item` is NONE.
__device__ __forceinline__ u32 or_shared(u32 item, u32 at, u32 bits) {
    u32 before = FULL;
    asm volatile("{ .reg .pred real; setp.ne.u32 real, %3, 0xFFFFFFFF; @real atom.shared.or.b32 %0, [%1], %2; }"
                 : "+r"(before) : "r"(at), "r"(bits), "r"(item) : "memory");
    return before;
}

__device__ __forceinline__ u32 add_shared(u32 at, u32 value) {
    u32 before;
    asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(before) : "r"(at), "r"(value) : "memory");
    return before;
}

// Loads where `word` is 0, from memory that nobody writes; else nothing is to be done with the value.
__device__ __forceinline__ uint4 load_if_zero(u32 word, const uint4* at) {
    uint4 value;
    asm volatile("{ .reg .pred zero; setp.eq.u32 zero, %5, 0; @zero ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(at), "r"(word));
    return value;
}
