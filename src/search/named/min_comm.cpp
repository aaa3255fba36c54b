#include "search/named/min_comm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cost/cost_model.h"
#include "cost/roofline.h"
#include "graph/operation.h"
#include "search/dp/additive.h"
#include "search/problem/build_problem.h"

namespace hidup {
namespace {

// Returns costs that count: a second per byte that a rank sends, and a second per flop of a product
// or byte of other work.
CostModel counter(const Mesh& mesh) {
  const std::vector<LinkRates> links(mesh.size(), {.bandwidth = 1.0, .latency_s = 0.0});
  Profile profile = roofline_profile(mesh, {.flops = 1.0, .memory_bandwidth = 1.0, .links = links});
  std::erase_if(profile.collectives,  // packing of messages does not count
                [](const CollectiveTimes& times) { return times.opcode == Opcode::slice; });
  return CostModel(profile);
}

double volume(const Choice& choice) {
  return choice.forward_comm_s + choice.backward_comm_s + choice.gather_s + choice.sync_s;
}
double work(const Choice& choice) {
  return choice.forward_compute_s + choice.backward_compute_s + choice.step_s;
}
double bytes(const Choice& choice) {
  return choice.persistent_bytes + choice.saved_bytes;
}

// Drops choices by which the first rank computes a whole product, unless there are no others.
void divide_products(const Graph& graph, BuiltProblem& built) {
  std::vector<bool> done(built.problem.kinds.size());
  for (size_t op = 0; op < graph.ops().size(); ++op) {
    const auto kind = static_cast<size_t>(built.problem.ops[op].kind);
    if (done[kind] || !spec_of(graph.ops()[op].kind).product) {
      continue;
    }
    done[kind] = true;
    std::vector<Choice>& choices = built.problem.kinds[kind].choices;
    const double whole = choices.front().forward_compute_s;  // replicate
    std::vector<Choice> divided;
    std::vector<ChoiceMeaning> meanings;
    for (size_t c = 0; c < choices.size(); ++c) {
      if (choices[c].forward_compute_s < whole) {
        divided.push_back(choices[c]);
        meanings.push_back(built.meanings[kind][c]);
      }
    }
    if (!divided.empty()) {
      choices = std::move(divided);
      built.meanings[kind] = std::move(meanings);
    }
  }
}

// Returns an upper bound of the sum over all operations.
double largest_sum(const Problem& problem, double (*count)(const Choice&)) {
  double sum = 0.0;
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    double most = 0.0;
    for (const Choice& choice : problem.choices_of(op).choices) {
      most = std::max(most, count(choice));
    }
    sum += most;
  }
  return std::max(sum, 1.0);
}

}  // namespace

Strategy least_communication(const Graph& graph, const Mesh& mesh) {
  BuiltProblem built = build_problem(graph, mesh, counter(mesh),
                                     {.same_rules = true, .storages = StorageChoices::as_used});
  divide_products(graph, built);
  // Volumes are whole bytes. Work and memory only break ties: each is scaled to add up to about
  // this part of a byte.
  constexpr double kShare = 0.1;
  const double per_work = kShare / largest_sum(built.problem, work);
  const double per_byte = kShare / largest_sum(built.problem, bytes);
  const Plan plan = cheapest_plan(
      built.problem,
      {.choice =
           [&](const Choice& choice) {
             return volume(choice) + per_work * work(choice) + per_byte * bytes(choice);
           },
       .reshard =
           [&](const Reshard& reshard) {
             return reshard.comm_s + per_work * reshard.compute_s + per_byte * reshard.bytes;
           }});
  Strategy strategy = to_strategy(graph, mesh, built, plan);
  strategy.name = "min-comm";
  return strategy;
}

}  // namespace hidup
