// What a step takes at least, so cheaply that many strategies can be told from the good ones.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "search/problem/build_problem.h"

namespace hidup {

// Of strategies of one graph and mesh: parts that several of them have are costed once.
class LeastTime {
 public:
  // All of them have to outlive it.
  LeastTime(const Graph& graph, const Mesh& mesh, const CostModel& costs, int64_t bucket_bytes);

  // Of a step with one microbatch, and with several.
  struct Seconds {
    double one = 0.0;
    double several = 0.0;
    double of(int microbatches) const { return microbatches == 1 ? one : several; }
  };
  // Each of the two streams is busy for so long, and together they are for at most twice as long as
  // the step takes. With one microbatch nothing hides what operations wait for. Costs are those of
  // rule_costs.h for one microbatch, with which messages are fewest. So, like the objective of the
  // search, it may be above the simulated time by what fusing saves.
  Seconds seconds(const Strategy& strategy);

 private:
  // An operation by some rules.
  struct Parts {
    double compute_s = 0.0;
    double comm_s = 0.0;
    std::vector<int> required, gradients;  // layouts of the inputs, -1: none is needed
    int output = 0;
    int output_gradient = 0;
  };
  struct Times {
    double compute_s = 0.0;
    double comm_s = 0.0;    // that operations wait for
    double bucket_s = 0.0;  // of parameters and gradients
    double step_s = 0.0;
  };
  const Parts& parts_of(OpId op, const OpStrategy& op_strategy);
  const Times& parameter(size_t input, const OpStrategy& op_strategy,
                         const ParameterStrategy& stored);
  void add_reshard(TensorId tensor, int from, int to, Times& sum);
  int number_of(const Layout& layout);

  const Graph& graph_;
  const CostModel& costs_;
  RuleCosts rules_;
  std::vector<int> kinds_, tensors_;  // per operation: equal where it, and its output, are alike
  std::vector<std::pair<OpId, size_t>> readers_;  // per tensor: of a parameter the last one
  std::vector<Layout> layouts_;
  std::unordered_map<std::string, int> numbers_;  // in layouts_
  std::unordered_map<std::string, Parts> parts_;
  std::unordered_map<std::string, Times> parameters_;
  std::map<std::vector<int>, Reshard> reshards_;
};

}  // namespace hidup
