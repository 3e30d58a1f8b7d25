// Graph500's rules for answers in device memory: twin of loops.py and edge_loops.py.
//
// One text for all searches: MEASURE, the type of a level (u8 or int) or distance (float, double
// or i64), and ID, that of parents or of the ends of tuples (u32 or i64), are set where this is
// compiled.
//
// Answers lie side by side, [vertex][answer], one or a multiple of four of them: a thread looks at
// GROUP of them, 1 or 4, so that the threads of an edge read whole lines of memory. Of two answers that
// break a rule the smaller place counts, so that it does not matter in which order threads come by.
// CuPy has all sums and comparisons of float32 take subnormal numbers for zero, whatever options it
// is given. Those of distances are therefore spelled out in PTX, which that does not reach.
typedef unsigned char u8;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef MEASURE Measure;
typedef ID Id;

#define NONE 0xFFFFFFFFu // no vertex

enum Broken { PARENT, REACHED, STEP };
enum Edges { LEAVES, SPAN };

template <typename T> struct IsLevel { static constexpr bool value = false; };
template <> struct IsLevel<u8> { static constexpr bool value = true; };
template <> struct IsLevel<int> { static constexpr bool value = true; };
constexpr bool LEVELS = IsLevel<Measure>::value;

__device__ __forceinline__ bool is_far(u8 x) { return x == 255; }
__device__ __forceinline__ bool is_far(int x) { return x == -1; }
__device__ __forceinline__ bool is_far(float x) { return x == __int_as_float(0x7f800000); }
__device__ __forceinline__ bool is_far(double x) { return x == __longlong_as_double(0x7ff0000000000000ll); }
__device__ __forceinline__ bool is_far(i64 x) { return x == 0x7fffffffffffffffll; }

#define COMPARISON(name, operation, sign)                                                                    \
    __device__ __forceinline__ bool name(float a, float b) {                                                 \
        int holds;                                                                                           \
        asm("{.reg .pred p; setp." operation ".f32 p, %1, %2; selp.s32 %0, 1, 0, p;}"                        \
            : "=r"(holds) : "f"(a), "f"(b));                                                                 \
        return holds;                                                                                        \
    }                                                                                                        \
    template <typename T> __device__ __forceinline__ bool name(T a, T b) { return a sign b; }

COMPARISON(less, "lt", <)
COMPARISON(at_most, "le", <=)
COMPARISON(equal, "eq", ==)

__device__ __forceinline__ bool is_possible(u8) { return true; }
__device__ __forceinline__ bool is_possible(int x) { return x >= -1; }
template <typename T> __device__ __forceinline__ bool is_possible(T x) { return at_most((T)0, x); } // NaN is not

// Sums in the distances' own type; integers end at unreached instead of wrapping.
__device__ __forceinline__ float plus(float distance, float weight) {
    float sum;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(distance), "f"(weight));
    return sum;
}
template <typename T> __device__ __forceinline__ T plus(T distance, T weight) { return distance + weight; }
__device__ __forceinline__ i64 plus(i64 distance, i64 weight) {
    const i64 far = 0x7fffffffffffffffll;
    return distance > far - weight ? far : distance + weight;
}

__device__ __forceinline__ u64 first_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 all_threads() { return (u64)gridDim.x * blockDim.x; }

// Asked first without an atomic: in an answer that is all wrong, every vertex comes here.
template <typename T> __device__ __forceinline__ void keep_smallest(T* smallest, T value) {
    if (value < *(volatile T*)smallest) atomicMin(smallest, value);
}

// One answer ------------------------------------------------------------------------------------

// Whether a parent's measure fits its child's.
__device__ __forceinline__ bool follows(Measure above, Measure here) {
    if constexpr (LEVELS) return !is_far(above) && here >= 1 && here == (i64)above + 1;
    else return at_most(above, here);
}

__device__ __forceinline__ bool is_none(Id parent) { return parent == (Id)-1; }

// Whether a vertex hangs on its parent without a step. Links of this kind may form a cycle.
__device__ __forceinline__ bool is_flat(u64 v, Id parent, const Measure* measure, u32 root) {
    return !is_none(parent) && v != root && equal(measure[parent], measure[v]);
}

// Every vertex against its parent. broken: smallest vertex for each rule, NONE at entry.
// counts: vertices that are reached, flat links; 0 at entry.
extern "C" __global__ void tree_rules(u32 vertices, const Id* parent, const Measure* measure, u32 root, u32* broken,
                                      u64* counts) {
    u32 reached = 0, flat = 0;
    for (u64 v = first_thread(); v < vertices; v += all_threads()) {
        Id p = parent[v];
        Measure here = measure[v];
        bool none = is_none(p);
        reached += !none;
        if (!none && (u64)p >= vertices) keep_smallest(broken + PARENT, (u32)v); // negative ones are large
        else if (none != is_far(here) || !is_possible(here)) keep_smallest(broken + REACHED, (u32)v);
        else if (!none && v != root) {
            Measure above = measure[p];
            if (!follows(above, here)) keep_smallest(broken + STEP, (u32)v);
            flat += equal(above, here);
        }
    }
    if (reached) atomicAdd(counts, (u64)reached);
    if (flat) atomicAdd(counts + 1, (u64)flat);
}

// next: the parent at the other end of a flat link, NONE where there is none.
extern "C" __global__ void flat_links(u32 vertices, const Id* parent, const Measure* measure, u32 root, u32* next) {
    for (u64 v = first_thread(); v < vertices; v += all_threads())
        next[v] = is_flat(v, parent[v], measure, root) ? (u32)parent[v] : NONE;
}

// Every link at least doubled: after log2(vertices) rounds, chains that have not ended lead into a
// cycle. Others may be ahead already, which only makes links longer. first: smallest vertex whose
// chain has not ended, NONE at entry.
extern "C" __global__ void follow_links(u32 vertices, u32* next, u32* first) {
    volatile u32* links = next;
    for (u64 v = first_thread(); v < vertices; v += all_threads()) {
        u32 far = links[v];
        if (far == NONE) continue;
        u32 farther = links[far];
        links[v] = farther;
        if (farther != NONE) keep_smallest(first, (u32)v);
    }
}

// An answer into its column. The root needs no edge to its parent.
extern "C" __global__ void copy_answer(u32 vertices, const Id* parent, const Measure* measure, u32 root, u32 width,
                                       u32 column, u32* parents, Measure* measures) {
    for (u64 v = first_thread(); v < vertices; v += all_threads()) {
        u64 at = v * width + column;
        parents[at] = v == root ? NONE : (u32)parent[v];
        measures[at] = measure[v];
    }
}

// All answers and the edges ---------------------------------------------------------------------

template <typename T> struct __align__(sizeof(T) * GROUP < 16 ? sizeof(T) * GROUP : 16) Group {
    T of[GROUP];
};

template <typename T> __device__ __forceinline__ Group<T> group(const T* answers, u64 v, u32 width, u32 lane) {
    return *(const Group<T>*)(answers + v * width + GROUP * lane);
}

// A tree edge that the input has is forgotten: what is left in the end was never seen.
__device__ __forceinline__ void confirm(u32* parents, u32 parent, u64 child, u32 width, u32 lane, u32 answers) {
    const Group<u32> found = group(parents, child, width, lane);
#pragma unroll
    for (u32 i = 0; i < GROUP; i++)
        if (answers >> i & 1 && found.of[i] == parent) parents[child * width + GROUP * lane + i] = NONE;
}

__device__ __forceinline__ void note(u64* broken, u64 start, u64 end) { keep_smallest(broken, start << 32 | end); }

// The edge rules for tuples source[e] -> target[e], in either direction unless directed.
// counts (width): tuples inside each answer, loops left out. broken (2, width): smallest arc, its
// start in the upper half. unknown: smallest id that is no vertex.
// A block has a multiple of width / GROUP threads.
extern "C" __global__ void edges(u64 count, const Id* source, const Id* target, const Measure* weight,
                                 u32 directed, u32 vertices, u32 width, const Measure* measures, u32* parents,
                                 u64* counts, u64* broken, i64* unknown) {
    u32 lanes = width / GROUP, lane = threadIdx.x % lanes, groups = blockDim.x / lanes;
    u64 step = (u64)gridDim.x * groups;
    u64 inside[GROUP] = {};
    for (u64 e = (u64)blockIdx.x * groups + threadIdx.x / lanes; e < count; e += step) {
        i64 u = source[e], v = target[e];
        bool known = (u64)u < vertices, also = (u64)v < vertices; // negative ones are large
        if (!known) keep_smallest(unknown, u);
        if (!also) keep_smallest(unknown, v);
        if (!known || !also || u == v) continue;
        const Group<Measure> here = group(measures, u, width, lane), there = group(measures, v, width, lane);
        u32 down = 0, up = 0; // answers that may have (u, v), (v, u) as a tree edge
        for (u32 i = 0; i < GROUP; i++) {
            Measure a = here.of[i], b = there.of[i];
            u64* mine = broken + GROUP * lane + i;
            if (is_far(a) || is_far(b)) {
                if (!is_far(a)) note(mine + LEAVES * width, u, v);
                else if (!is_far(b) && !directed) note(mine + LEAVES * width, v, u);
                continue;
            }
            inside[i]++;
            bool beyond, short_of;
            if constexpr (LEVELS) {
                beyond = b > (i64)a + 1;
                short_of = a > (i64)b + 1;
                down |= (u32)(b == (i64)a + 1) << i;
                up |= (u32)(a == (i64)b + 1) << i;
            } else {
                Measure out = plus(a, weight[e]), back = plus(b, weight[e]);
                beyond = less(out, b);
                short_of = less(back, a);
                down |= (u32)equal(b, out) << i;
                up |= (u32)equal(a, back) << i;
            }
            if (beyond) note(mine + SPAN * width, u, v);
            if (short_of && !directed) note(mine + SPAN * width, v, u);
        }
        if (down) confirm(parents, u, v, width, lane, down);
        if (up && !directed) confirm(parents, v, u, width, lane, up);
    }
    for (u32 i = 0; i < GROUP; i++)
        if (inside[i]) atomicAdd(counts + GROUP * lane + i, inside[i]);
}

// child (width): smallest vertex with a tree edge that no tuple confirmed, NONE at entry.
extern "C" __global__ void unconfirmed(u32 vertices, u32 width, const u32* parents, u32* child) {
    u32 lanes = width / GROUP, lane = threadIdx.x % lanes, groups = blockDim.x / lanes;
    for (u64 v = (u64)blockIdx.x * groups + threadIdx.x / lanes; v < vertices; v += (u64)gridDim.x * groups) {
        const Group<u32> found = group(parents, v, width, lane);
#pragma unroll
        for (u32 i = 0; i < GROUP; i++)
            if (found.of[i] != NONE) keep_smallest(child + GROUP * lane + i, (u32)v);
    }
}

// Weights of float32 for distances of float64.
extern "C" __global__ void widen(u64 count, const float* weight, double* wide) {
    for (u64 e = first_thread(); e < count; e += all_threads())
        asm("cvt.f64.f32 %0, %1;" : "=d"(wide[e]) : "f"(weight[e]));
}
