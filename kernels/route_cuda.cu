#include "kernels/cuda_elements.h"
#include "kernels/gate_math.h"
#include "kernels/preconditions.h"
#include "kernels/route.h"
#include "kernels/routing.h"

namespace hidup::kernels {
namespace {

// Chooses the experts with the largest score(e), by insertion. NaN is never larger than earlier
// scores.
template <typename Score>
__device__ void choose(const RouteSize& size, int32_t* mine, Score score) {
  float least = 0.0F;  // of the chosen experts
  for (int64_t e = 0; e < size.experts; ++e) {
    const float value = score(e);
    if (e >= size.choices && !(value > least)) {
      continue;
    }
    int64_t place = smaller(e, size.choices - 1);
    for (; place > 0 && value > score(mine[place - 1]); --place) {
      mine[place] = mine[place - 1];
    }
    mine[place] = static_cast<int32_t>(e);
    least = score(mine[smaller(e, size.choices - 1)]);
  }
  for (int64_t c = size.experts; c < size.choices; ++c) {
    mine[c] = mine[0];
  }
}

// A thread chooses for a token.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    choose_kernel(const Element* logits, int32_t* chosen, RouteSize size) {
  const int64_t tokens = size.batch * size.sequence;
  for (int64_t t = thread_of_grid(); t < tokens; t += threads_of_grid()) {
    const Element* x = logits + t * size.experts;
    choose(size, chosen + t * size.choices, [=](int64_t e) { return widen(x[e]); });
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    choose_biased_kernel(const Element* logits, const float* bias, int32_t* chosen, RouteSize size,
                         bool sigmoid) {
  const int64_t tokens = size.batch * size.sequence;
  for (int64_t t = thread_of_grid(); t < tokens; t += threads_of_grid()) {
    const Element* x = logits + t * size.experts;
    float largest = -kInfinity;
    float sum = 0.0F;
    for (int64_t e = 0; e < size.experts && !sigmoid; ++e) {
      largest = fmaxf(largest, widen(x[e]));
    }
    for (int64_t e = 0; e < size.experts && !sigmoid; ++e) {
      sum += expf(widen(x[e]) - largest);
    }
    choose(size, chosen + t * size.choices, [=](int64_t e) {
      const float value = widen(x[e]);
      return (sigmoid ? sigmoid_of(value) : expf(value - largest) / sum) + bias[e];
    });
  }
}

// A warp assigns the slots of one expert in one sequence, 32 positions at a time.
__global__ void __launch_bounds__(kThreads)
    slots_kernel(const int32_t* chosen, int32_t* routing, RouteSize size) {
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t tasks = size.batch * size.experts;
  for (int64_t task = thread_of_grid() / kWarp; task < tasks; task += threads_of_grid() / kWarp) {
    const auto expert = static_cast<int32_t>(task % size.experts);
    const int64_t begin = task / size.experts * size.sequence * size.choices;
    int64_t used = 0;
    for (int64_t c = 0; c < size.choices; ++c) {
      for (int64_t first = 0; first < size.sequence; first += kWarp) {
        const int64_t s = first + lane;
        const int64_t at = begin + s * size.choices + c;
        const bool mine = s < size.sequence && chosen[at] == expert;
        const unsigned all = __ballot_sync(kAllLanes, mine ? 1 : 0);
        if (mine) {
          const int64_t slot = used + __popc(all & ((1U << lane) - 1U));
          routing[at] = static_cast<int32_t>(slot < size.capacity ? expert * size.capacity + slot
                                                                  : -(int64_t{expert} + 1));
        }
        used += __popc(all);
      }
    }
  }
}

// Returns the number of entries for which `is_counted` holds, by a warp.
template <typename IsCounted>
__device__ int count_entries(const int32_t* entries, int64_t n, IsCounted is_counted) {
  int count = 0;
  for (int64_t i = threadIdx.x % kWarp; i < n; i += kWarp) {
    count += is_counted(entries[i]) ? 1 : 0;
  }
  return warp_reduce(count, Sum{});
}

__global__ void __launch_bounds__(kThreads) counts_kernel(ExpertCounts args) {
  const int64_t tasks = args.batch * args.experts;
  for (int64_t task = thread_of_grid() / kWarp; task < tasks; task += threads_of_grid() / kWarp) {
    const int64_t expert = args.first_expert + task / args.batch;
    const int count = count_entries(
        args.routing + task % args.batch * args.entries, args.entries,
        [=](int32_t entry) { return entry >= 0 && expert_of(entry, args.capacity) == expert; });
    if (threadIdx.x % kWarp == 0) {
      args.counts[task] = count;
    }
  }
}

__global__ void __launch_bounds__(kThreads) round_counts_kernel(RoundCounts args) {
  for (int64_t i = thread_of_grid(); i < args.count; i += threads_of_grid()) {
    args.counts[i] = rows_of_round(args.all[i], args.first, args.rows);
  }
}

// A block counts the choices of an expert.
__global__ void __launch_bounds__(kThreads)
    load_kernel(const int32_t* routing, float* load, int64_t entries, int64_t experts,
                int64_t capacity) {
  const int64_t expert = blockIdx.x;
  int chosen = 0;
  int dropped = 0;
  for (int64_t i = threadIdx.x; i < entries; i += kThreads) {
    if (expert_of(routing[i], capacity) == expert) {
      ++chosen;
      dropped += routing[i] < 0 ? 1 : 0;
    }
  }
  chosen = group_reduce<kThreads>(chosen, Sum{});
  dropped = group_reduce<kThreads>(dropped, Sum{});
  if (threadIdx.x == 0) {
    load[expert] = static_cast<float>(chosen);
    load[experts + expert] = static_cast<float>(dropped);
  }
}

int64_t entries_of(const RouteSize& size) {
  return size.batch * size.sequence * size.choices;
}

int32_t* chosen_experts(Stream& stream, const RouteSize& size) {
  return static_cast<int32_t*>(
      cuda_stream(stream).scratch(entries_of(size) * static_cast<int64_t>(sizeof(int32_t))));
}

void assign_slots(Stream& stream, const int32_t* chosen, int32_t* routing, const RouteSize& size) {
  launch(stream, slots_kernel, blocks_for(size.batch * size.experts, kThreads / kWarp), kThreads,
         chosen, routing, size);
}

// Drops every choice (-1), for lack of experts.
void drop_all(Stream& stream, int32_t* routing, const RouteSize& size) {
  fill_bytes(stream, routing, 0xFF, entries_of(size) * static_cast<int64_t>(sizeof(int32_t)));
}

}  // namespace

template <typename Element>
void route_forward(Stream& stream, const Element* logits, int32_t* routing, RouteSize size) {
  check_size(size);
  if (size.experts == 0) {
    drop_all(stream, routing, size);
    return;
  }
  int32_t* chosen = chosen_experts(stream, size);
  launch(stream, choose_kernel<Element>, blocks_for(size.batch * size.sequence, kThreads), kThreads,
         logits, chosen, size);
  assign_slots(stream, chosen, routing, size);
}

template <typename Element>
void route_biased(Stream& stream, const Element* logits, const float* bias, int32_t* routing,
                  RouteSize size, bool sigmoid) {
  check_size(size);
  if (size.experts == 0) {
    drop_all(stream, routing, size);
    return;
  }
  int32_t* chosen = chosen_experts(stream, size);
  launch(stream, choose_biased_kernel<Element>, blocks_for(size.batch * size.sequence, kThreads),
         kThreads, logits, bias, chosen, size, sigmoid);
  assign_slots(stream, chosen, routing, size);
}

void route_chosen(Stream& stream, const int32_t* chosen, int32_t* routing, RouteSize size) {
  check_size(size);
  if (size.experts == 0) {
    drop_all(stream, routing, size);
    return;
  }
  assign_slots(stream, chosen, routing, size);
}

void expert_counts(Stream& stream, const ExpertCounts& args) {
  check_size(args);
  launch(stream, counts_kernel, blocks_for(args.batch * args.experts, kThreads / kWarp), kThreads,
         args);
}

void round_counts(Stream& stream, const RoundCounts& args) {
  check_extents("round_counts", {args.count});
  launch(stream, round_counts_kernel, blocks_for(args.count, kThreads), kThreads, args);
}

void expert_load(Stream& stream, const int32_t* routing, float* load, int64_t entries,
                 int64_t experts, int64_t capacity) {
  check_entries("expert_load", entries, experts, capacity);
  launch(stream, load_kernel, grid_of(experts), kThreads, routing, load, entries, experts,
         capacity);
}

HIDUP_INSTANTIATE(route_forward);
HIDUP_INSTANTIATE(route_biased);

}  // namespace hidup::kernels
