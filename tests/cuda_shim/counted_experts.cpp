// Kernels of a Mixture-of-Experts layer.
#include "../kernels/routing_test.h"
#include "counted.h"
#include "kernels/dispatch.h"
#include "kernels/expert_matmul.h"
#include "kernels/gate.h"
#include "kernels/router_bias.h"
#include "kernels/router_losses.h"

namespace hidup::kernels::testing {
namespace {

template <typename Element>
struct CountedExperts {
  CountedTable& table;
  RouteSize route;
  int64_t width;
  int64_t tokens = route.batch * route.sequence;
  int64_t entries = tokens * route.choices;
  int64_t slots = route.experts * route.batch * route.capacity;
  int64_t logits_bytes = tokens * route.experts * kBytes<Element>;
  int64_t row = width * kBytes<Element>;
  DispatchSize size = {route.batch, route.sequence, route.choices, route.experts,
                       0,           route.capacity, width};
  Ints chosen = random_choices(route, route.experts);
  Ints routing = routing_of(chosen, route);
  Ints routed = routing;
  Ints counts = Ints(static_cast<size_t>(route.experts * route.batch), 0);
  Ints of_round = counts;
  bool packed = false;
  DeviceArray<Element> logits = ones<Element>(tokens * route.experts);
  DeviceArray<Element> dlogits = ones<Element>(tokens * route.experts);
  Floats weights = ones<float>(entries);
  Floats dweights = ones<float>(entries);
  Floats sums = ones<float>(3 * route.experts);
  Floats balance = ones<float>(route.experts);
  DeviceArray<Element> x = ones<Element>(tokens * width);
  DeviceArray<Element> y = ones<Element>(tokens * width);
  DeviceArray<Element> buffer = ones<Element>(slots * width);
  DeviceArray<Element> dbuffer = ones<Element>(slots * width);
  DeviceArray<Element> bias = ones<Element>(route.experts * width);
  Floats dbias = ones<float>(route.experts * width);
  OnDevice<StepState> state{StepState{.step = 1}};

  void add(const std::string& function, int64_t read, int64_t written,
           const std::function<void(Stream&)>& launch, const std::string& reason = "") {
    const std::string sizes = packed ? fmt::format("packed {} x {} of {}, width {}", tokens,
                                                   route.choices, route.experts, width)
                                     : fmt::format("{} tokens, {} of {} experts, width {}", tokens,
                                                   route.choices, route.experts, width);
    table.add({function, operands_of<Element>(sizes), read, written, launch,
               joined(reason, reason_of_rows(row))});
  }

  int64_t used() const {  // slots
    return std::ranges::count_if(routing, [](int32_t entry) { return entry >= 0; });
  }

  void routes() {
    for (size_t i = 0; i < logits.size(); ++i) {
      logits[i] = Element(static_cast<float>(i * 7919 % 1009));
    }
    add(
        "route_forward", logits_bytes, 4 * entries,
        [this](Stream& stream) {
          route_forward<Element>(stream, logits.data(), routed.data(), route);
        },
        "a thread a token: its row is not its neighbours', and is read again");
    add(
        "route_biased", logits_bytes + 4 * route.experts, 4 * entries,
        [this](Stream& stream) {
          route_biased<Element>(stream, logits.data(), balance.data(), routed.data(), route, false);
        },
        "a thread a token: its row is not its neighbours', and is read again");
    if (kBytes<Element> == 4) {
      add(
          "route_chosen", 4 * entries, 4 * entries,
          [this](Stream& stream) { route_chosen(stream, chosen.data(), routed.data(), route); },
          "a warp for each expert reads the choices of a sequence");
      add(
          "expert_counts", 4 * entries, 4 * route.experts * route.batch,
          [this](Stream& stream) {
            expert_counts(
                stream, {routing.data(), counts.data(), route.batch, route.sequence * route.choices,
                         route.capacity, 0, route.experts});
          },
          "a warp for each expert reads all entries of a sequence");
      add(
          "round_counts", 4 * route.experts * route.batch, 4 * route.experts * route.batch,
          [this](Stream& stream) {
            round_counts(stream,
                         {counts.data(), of_round.data(), route.experts * route.batch, 1, 2});
          },
          "");
      add(
          "expert_load", 4 * entries, 8 * route.experts,
          [this](Stream& stream) {
            expert_load(stream, routing.data(), sums.data(), entries, route.experts,
                        route.capacity);
          },
          "a block for each expert reads all entries");
      add(
          "move_router_bias", 8 * route.experts + 4, 4 * route.experts,
          [this](Stream& stream) {
            move_router_bias(stream, {balance.data(), sums.data(), 0, route.experts, route.experts,
                                      0.1F, weights.data()});
          },
          "one warp; loads twice");
    }
  }

  void gates() {
    const GateSize gate{tokens, route.experts, route.choices, route.capacity};
    add(
        "gate_forward", logits_bytes + 4 * entries, 4 * entries,
        [this, &gate](Stream& stream) {
          gate_forward<Element>(stream, logits.data(), routing.data(), weights.data(), gate);
        },
        "a warp a token");
    add(
        "gate_backward", logits_bytes + 8 * entries, logits_bytes,
        [this, &gate](Stream& stream) {
          gate_backward<Element>(stream, logits.data(), routing.data(), dweights.data(),
                                 dlogits.data(), gate);
        },
        "a warp a token");
    add(
        "router_sums", logits_bytes + 4 * entries, 12 * route.experts,
        [this](Stream& stream) {
          router_sums<Element>(stream, {logits.data(), routing.data(), sums.data(), tokens,
                                        route.experts, route.choices, 1, route.capacity});
        },
        "logits twice or more");
    add(
        "router_losses_backward", logits_bytes + 12 * route.experts, logits_bytes,
        [this](Stream& stream) {
          router_losses_backward<Element>(
              stream, {logits.data(), sums.data(), dlogits.data(), tokens, route.experts, tokens, 1,
                       0.1F, 0.1F, false, state.get()});
        },
        "a warp a token");
  }

  void dispatches() {
    const std::string again = "routing and weights again for every warp along a row, from caches";
    add("dispatch_forward", used() * row + 4 * entries, slots * row, [this](Stream& stream) {
      dispatch_forward<Element>(stream, x.data(), routing.data(), buffer.data(), size);
    });
    add(
        "dispatch_backward", used() * row + 4 * entries, tokens * row,
        [this](Stream& stream) {
          dispatch_backward<Element>(stream, buffer.data(), routing.data(), y.data(), size);
        },
        again);
    add(
        "combine_forward", used() * row + 8 * entries, tokens * row,
        [this](Stream& stream) {
          combine_forward<Element>(stream, buffer.data(), routing.data(), weights.data(), y.data(),
                                   size);
        },
        again);
    add(
        "combine_backward", (used() + tokens) * row + 8 * entries, slots * row + 4 * entries,
        [this](Stream& stream) {
          combine_backward<Element>(stream, {buffer.data(), routing.data(), weights.data(),
                                             y.data(), dbuffer.data(), dweights.data(), size});
        },
        "dy for each of its tokens' slots");
  }

  // Makes the counts of the routing.
  void count() {
    for (int64_t i = 0; i < entries; ++i) {
      const int32_t entry = routing[static_cast<size_t>(i)];
      if (entry >= 0) {
        const int64_t b = i / (route.sequence * route.choices);
        ++counts[static_cast<size_t>(entry / route.capacity * route.batch + b)];
      }
    }
  }

  // Counts all that have a form for packed rows in that form.
  void packed_rows() {
    count();
    packed = true;
    size.counts = counts.data();
    size.rows = slots;
    slots = used();
    dispatches();
    biases();
    products();
  }

  void biases() {
    const ExpertSize of = expert_size(width);
    add(
        "expert_bias", used() * row + route.experts * row + 4 * route.experts * route.batch,
        slots * row,
        [this, &of](Stream& stream) {
          expert_bias<Element>(stream, buffer.data(), bias.data(), counts.data(), dbuffer.data(),
                               of);
        },
        "the bias for every row, from caches");
    add(
        "expert_bias_backward", used() * row + 4 * route.experts * route.batch,
        4 * route.experts * width,
        [this, &of](Stream& stream) {
          expert_bias_backward<Element>(stream, buffer.data(), counts.data(), dbias.data(), of,
                                        false);
        },
        "counts again for every 32 columns");
  }

  ExpertSize expert_size(int64_t n) const {
    return {route.experts,          route.batch, route.capacity, width, n,
            size.counts != nullptr, size.rows};
  }

  void products() {
    const ExpertSize of = expert_size(width / 4);
    const int64_t x_bytes = used() * row;
    const int64_t y_bytes = used() * of.n * kBytes<Element>;
    const int64_t w_elements = route.experts * of.k * of.n;
    const int64_t counts_bytes = 4 * route.experts * route.batch;
    const DeviceArray<Element> w = ones<Element>(w_elements);
    Floats dw = ones<float>(w_elements);
    const std::string again = joined("operands again for every tile of 128 x 128, from caches",
                                     row % 16 == 0 ? "parts of rows of 64 bytes share banks"
                                                   : "rows of no whole vectors by elements");
    add(
        "expert_matmul", x_bytes + w_elements * kBytes<Element> + counts_bytes, y_bytes,
        [&](Stream& stream) {
          expert_matmul<Element>(stream, buffer.data(), w.data(), counts.data(), dbuffer.data(),
                                 of);
        },
        again);
    add(
        "expert_matmul_backward_input", y_bytes + w_elements * kBytes<Element> + counts_bytes,
        x_bytes,
        [&](Stream& stream) {
          expert_matmul_backward_input<Element>(stream, buffer.data(), w.data(), counts.data(),
                                                dbuffer.data(), of);
        },
        again);
    add(
        "expert_matmul_backward_weight", x_bytes + y_bytes + counts_bytes, 4 * w_elements,
        [&](Stream& stream) {
          expert_matmul_backward_weight<Element>(
              stream, {buffer.data(), dbuffer.data(), counts.data(), dw.data(), of, false});
        },
        again);
  }
};

template <typename Element>
void count_experts_of(CountedTable& table) {
  for (const auto& [route, width] :
       {std::pair<RouteSize, int64_t>{{4, 128, 8, 2, 40}, 512}, {{3, 65, 5, 2, 31}, 203}}) {
    CountedExperts<Element> of{table, route, width};
    of.gates();
    of.dispatches();
    of.count();
    of.biases();
    of.routes();
    CountedExperts<Element>{table, route, width}.packed_rows();
  }
}

}  // namespace

void count_experts(CountedTable& table) {
  count_experts_of<float>(table);
  count_experts_of<BFloat16>(table);
}

}  // namespace hidup::kernels::testing
