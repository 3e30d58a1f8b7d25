// Where SSSP finds the arcs of a row: all on the device, or a share of each row there and all in host
// memory. Without tiers the words are the same as if there were none.
#pragma once
#include "near.cuh"
#include "sssp_graph.cuh"
#if TIERED

#define OUT_NEAR(g, v) const Near split = near_of(g.out_near.starts, g.out_offsets, v);
#define IN_NEAR(g, v) const Near split = near_of(g.in_near.starts, g.in_offsets, v);
#define OUT_NEIGHBOR(g, at) arc_word(split, g.out_near.neighbors, g.out_neighbors, at)
#define OUT_WEIGHT(g, at) arc_word(split, g.out_near.weights, g.out_weights, at)
#define IN_NEIGHBOR(g, at) arc_word(split, g.in_near.neighbors, g.in_neighbors, at)
#define IN_WEIGHT(g, at) arc_word(split, g.in_near.weights, g.in_weights, at)
#else
#define OUT_NEAR(g, v)
#define IN_NEAR(g, v)
#define OUT_NEIGHBOR(g, at) __ldg(g.out_neighbors + at)
#define OUT_WEIGHT(g, at) __ldg(g.out_weights + at)
#define IN_NEIGHBOR(g, at) __ldg(g.in_neighbors + at)
#define IN_WEIGHT(g, at) __ldg(g.in_weights + at)
#endif
