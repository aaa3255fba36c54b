#include "kernels/route.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu_columns.h"
#include "kernels/cpu_math.h"
#include "kernels/cpu_team.h"
#include "kernels/gate_math.h"
#include "kernels/preconditions.h"
#include "kernels/routing.h"

namespace hidup::kernels {
namespace {

// Chooses the experts with the largest of x[0 .. experts), by insertion.
template <typename Element>
void choose(const Element* x, int64_t experts, int64_t choices, int32_t* chosen) {
  for (int64_t e = 0; e < experts; ++e) {
    if (e >= choices && !(x[e] > x[chosen[choices - 1]])) {
      continue;
    }
    int64_t place = std::min(e, choices - 1);
    for (; place > 0 && x[e] > x[chosen[place - 1]]; --place) {
      chosen[place] = chosen[place - 1];
    }
    chosen[place] = static_cast<int32_t>(e);
  }
  if (experts < choices) {
    std::fill(chosen + experts, chosen + choices, chosen[0]);
  }
}

// score[e] = p[e] + bias[e]
template <typename Element>
void biased_scores(const Element* x, const float* bias, int64_t experts, bool sigmoid,
                   float* score) {
  if (sigmoid) {
    for (int64_t e = 0; e < experts; ++e) {
      score[e] = sigmoid_of(float{x[e]}) + bias[e];
    }
    return;
  }
  const float largest = max_of(x, experts);
  const float sum = sum_of(experts, [=](int64_t e) { return score[e] = fast_exp(x[e] - largest); });
  for (int64_t e = 0; e < experts; ++e) {
    score[e] = score[e] / sum + bias[e];
  }
}

// Turns the chosen experts of one sequence into routing entries.
void assign_slots(int32_t* routing, const RouteSize& size) {
  thread_local std::vector<int32_t> memory;
  int32_t* used = scratch(memory, size.experts);
  std::fill_n(used, size.experts, 0);
  const auto capacity = static_cast<int32_t>(size.capacity);
  for (int64_t c = 0; c < size.choices; ++c) {
    for (int64_t s = 0; s < size.sequence; ++s) {
      int32_t& entry = routing[s * size.choices + c];
      const int32_t expert = entry;
      entry = used[expert] < capacity ? expert * capacity + used[expert]++ : -(expert + 1);
    }
  }
}

// Writes routing[b, s, :] from chosen(t, entries), which writes the experts of the token with
// row-major index t. Without experts every choice is dropped.
template <typename Chosen>
void route(int32_t* routing, const RouteSize& size, Chosen chosen) {
  const int64_t tokens = size.batch * size.sequence;
  if (size.experts == 0) {
    std::fill_n(routing, tokens * size.choices, -1);
    return;
  }
  for_each(tokens, [&](int64_t t) { chosen(t, routing + t * size.choices); });
  for_each(size.batch,
           [&](int64_t b) { assign_slots(routing + b * size.sequence * size.choices, size); });
}

}  // namespace

template <typename Element>
void route_forward(Stream& stream, const Element* logits, int32_t* routing, RouteSize size) {
  check_size(size);
  stream.enqueue([=] {
    route(routing, size, [=](int64_t t, int32_t* entries) {
      choose(logits + t * size.experts, size.experts, size.choices, entries);
    });
  });
}

template <typename Element>
void route_biased(Stream& stream, const Element* logits, const float* bias, int32_t* routing,
                  RouteSize size, bool sigmoid) {
  check_size(size);
  stream.enqueue([=] {
    route(routing, size, [=](int64_t t, int32_t* entries) {
      thread_local std::vector<float> memory;
      float* score = scratch(memory, size.experts);
      biased_scores(logits + t * size.experts, bias, size.experts, sigmoid, score);
      choose(score, size.experts, size.choices, entries);
    });
  });
}

void route_chosen(Stream& stream, const int32_t* chosen, int32_t* routing, RouteSize size) {
  check_size(size);
  stream.enqueue([=] {
    route(routing, size, [=](int64_t t, int32_t* entries) {
      std::copy_n(chosen + t * size.choices, size.choices, entries);
    });
  });
}

void expert_counts(Stream& stream, const ExpertCounts& args) {
  check_size(args);
  stream.enqueue([=] {
    for_each(args.batch, [&](int64_t b) {
      for (int64_t e = 0; e < args.experts; ++e) {
        args.counts[e * args.batch + b] = 0;
      }
      for (int64_t i = b * args.entries; i < (b + 1) * args.entries; ++i) {
        const int32_t entry = args.routing[i];
        const int64_t expert = entry < 0 ? -1 : expert_of(entry, args.capacity) - args.first_expert;
        if (expert >= 0 && expert < args.experts) {
          ++args.counts[expert * args.batch + b];
        }
      }
    });
  });
}

void round_counts(Stream& stream, const RoundCounts& args) {
  check_extents("round_counts", {args.count});
  stream.enqueue([=] {
    for (int64_t i = 0; i < args.count; ++i) {
      args.counts[i] = rows_of_round(args.all[i], args.first, args.rows);
    }
  });
}

void expert_load(Stream& stream, const int32_t* routing, float* load, int64_t entries,
                 int64_t experts, int64_t capacity) {
  check_entries("expert_load", entries, experts, capacity);
  stream.enqueue([=] {
    thread_local std::vector<int64_t> memory;
    const RowBlocks blocks(entries);
    int64_t* partials = scratch(memory, blocks.count * 2 * experts);
    for_each(blocks.count, [&](int64_t block) {
      int64_t* chosen = partials + block * 2 * experts;
      int64_t* dropped = chosen + experts;
      std::fill_n(chosen, 2 * experts, 0);
      for (int64_t i = blocks.begin(block); i < blocks.end(block); ++i) {
        const int64_t expert = expert_of(routing[i], capacity);
        if (expert < experts) {
          ++chosen[expert];
          dropped[expert] += routing[i] < 0 ? 1 : 0;
        }
      }
    });
    for (int64_t j = 0; j < 2 * experts; ++j) {
      int64_t sum = 0;
      for (int64_t block = 0; block < blocks.count; ++block) {
        sum += partials[block * 2 * experts + j];
      }
      load[j] = static_cast<float>(sum);
    }
  });
}

HIDUP_INSTANTIATE(route_forward);
HIDUP_INSTANTIATE(route_biased);

}  // namespace hidup::kernels
