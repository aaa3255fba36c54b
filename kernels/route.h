// The experts of a token in a Mixture-of-Experts layer, and its slots in their buffers.
//
// Every expert has `capacity` slots per sequence, so that the choice depends on one sequence alone.
// Choices take slots in this order: the first choices of all tokens of the sequence by position,
// then the second choices (GShard, Lepikhin et al. 2020, algorithm 1), then the third ones and so
// on. A choice without a free slot is dropped.
//
// A routing entry, i32, is expert * capacity + slot, or -(expert + 1) for a dropped choice.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

struct RouteSize {
  int64_t batch;
  int64_t sequence;
  int64_t experts;
  int64_t choices;   // experts per token, 1 or more
  int64_t capacity;  // slots of an expert per sequence
};

// Chooses the experts with the largest logits, largest first; the lower expert of equal ones. If
// there are fewer experts than choices, the first choice repeats.
// logits: [batch, sequence, experts]; routing: i32 [batch, sequence, choices].
template <typename Element>
void route_forward(Stream& stream, const Element* logits, int32_t* routing, RouteSize size);

// Chooses the experts with the largest p[e] + bias[e] instead, p = softmax(logits[t, :]) or
// sigmoid(logits[t, :]). bias: f32 [experts].
template <typename Element>
void route_biased(Stream& stream, const Element* logits, const float* bias, int32_t* routing,
                  RouteSize size, bool sigmoid);

// Takes the experts that `chosen` names, all below size.experts and those of a token distinct.
// chosen: i32 [batch, sequence, choices].
void route_chosen(Stream& stream, const int32_t* chosen, int32_t* routing, RouteSize size);

// counts[e, b] = the number of used slots of expert first_expert + e, for `experts` experts. An
// expert's first slots are the used ones.
struct ExpertCounts {
  const int32_t* routing;  // i32 [batch, entries]
  int32_t* counts;         // i32 [experts, batch]
  int64_t batch;
  int64_t entries;  // sequence * choices
  int64_t capacity;
  int64_t first_expert;
  int64_t experts;
};
void expert_counts(Stream& stream, const ExpertCounts& args);

// counts[i] = the rows of a round among all[i] rows: min(max(all[i] - first, 0), rows). Both are
// i32 [count].
struct RoundCounts {
  const int32_t* all;
  int32_t* counts;
  int64_t count;
  int64_t first;
  int64_t rows;
};
void round_counts(Stream& stream, const RoundCounts& args);

// load[0, e] = the choices of expert e; load[1, e] = the number of them that were dropped.
// routing: i32 [entries]; load: f32 [2, experts], exact up to 2^24.
void expert_load(Stream& stream, const int32_t* routing, float* load, int64_t entries,
                 int64_t experts, int64_t capacity);

}  // namespace hidup::kernels
