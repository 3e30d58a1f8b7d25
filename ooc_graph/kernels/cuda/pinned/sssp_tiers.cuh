// Where SSSP finds the arcs of a row: all on the device, or a share of each row there and all in host
// memory. Without tiers the words are the same as if there were none.
#pragma once
#include "near.cuh"
#include "sssp_graph.cuh"
#if TIERED

#define OUT_NEAR(g, v) const Near there = near_of(g.out_held.starts, g.out_offsets, v);
#define IN_NEAR(g, v) const Near there = near_of(g.in_held.starts, g.in_offsets, v);
#define OUT_NEIGHBOR(g, at) arc_word(there, g.out_held.neighbors, g.out_neighbors, at)
#define OUT_WEIGHT(g, at) arc_word(there, g.out_held.weights, g.out_weights, at)
#define IN_NEIGHBOR(g, at) arc_word(there, g.in_held.neighbors, g.in_neighbors, at)
#define IN_WEIGHT(g, at) arc_word(there, g.in_held.weights, g.in_weights, at)
#else
#define OUT_NEAR(g, v)
#define IN_NEAR(g, v)
#define OUT_NEIGHBOR(g, at) __ldg(g.out_neighbors + at)
#define OUT_WEIGHT(g, at) __ldg(g.out_weights + at)
#define IN_NEIGHBOR(g, at) __ldg(g.in_neighbors + at)
#define IN_WEIGHT(g, at) __ldg(g.in_weights + at)
#endif
