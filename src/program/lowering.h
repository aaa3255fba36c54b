// What the passes of lower() share; for the sources of this folder only.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "program/builder.h"
#include "program/gathered.h"
#include "program/lower.h"

namespace hidup {

// What the passes read: the graph, the strategy, and who uses what.
struct LoweringInput {
  LoweringInput(const Graph& model, const Strategy& chosen, const LoweringOptions& how,
                bool training);

  const Graph& graph;
  const Strategy strategy;
  const LoweringOptions& options;
  const bool trains;                        // a backward pass and an update follow the forward pass
  std::vector<int> consumers;               // per tensor
  std::vector<std::vector<Layout>> wanted;  // per tensor: the layouts its consumers want
  std::vector<const ParameterStrategy*> storage;  // per tensor; null: no parameter

  OpId op_count() const { return static_cast<OpId>(graph.ops().size()); }
  Tensor::Role role(TensorId id) const { return graph.tensor(id).role; }
  bool is_parameter(TensorId id) const { return role(id) == Tensor::Role::parameter; }
  const OpStrategy& rules(OpId op) const { return strategy.ops[static_cast<size_t>(op)]; }
  int consumers_of(TensorId id) const { return consumers[static_cast<size_t>(id)]; }
  const ParameterStrategy& stored(TensorId id) const { return *storage[static_cast<size_t>(id)]; }
  int microbatches() const { return strategy.microbatches * strategy.accumulate; }  // of all groups
  bool is_last(int microbatch) const { return microbatch + 1 == microbatches(); }
  // Whether the backward pass computes again what the operation wrote.
  bool recomputes(OpId op) const {
    return trains && rules(op).recompute && can_recompute(graph, op);
  }
  // Whether the backward pass of the operation that made the activation reads it.
  bool needed_by_producer(TensorId activation) const;
  // Whether the backward pass of the operation reads its input i.
  bool needs_input(const Op& op, size_t i) const;
  // A tensor, or of an input or activation the microbatch's part.
  Value value_of(TensorId id, std::string name, const Layout& layout, int microbatch) const;
  // The part of the batch that is the microbatch's: of a shape with the batch as `dim`.
  void split(Value& value, int dim, int microbatch) const;
  // The loss is the mean over all targets of the step, on all ranks.
  LossAttributes loss_attributes(const Op& op) const;
  // Of a route operation with losses of its own.
  RouterLossAttributes router_loss_attributes(const Op& op) const;
  // Names the mask's random numbers; the same in both passes.
  std::string random_purpose(OpId op) const;
};

// A model as it is outside training, and the strategy for what is left of it.
struct InferenceModel {
  Graph graph;
  Strategy strategy;
  std::vector<OpId> original_ops;  // per operation: which one it was
};
InferenceModel without_training(const Graph& graph, const Strategy& strategy);

// Values that last from step to step, and the copies that a step makes of parameters.
class Parameters {
 public:
  Parameters(const LoweringInput& input, ProgramBuilder& builder);

  // A parameter as it is stored, then as it has been gathered.
  ValueIds& copies(TensorId id) { return copies_[static_cast<size_t>(id)]; }
  const ValueIds& copies(TensorId id) const { return copies_[static_cast<size_t>(id)]; }
  const std::vector<ValueIds>& all() const { return copies_; }  // per tensor
  ValueId stored(TensorId id) const { return copies_[static_cast<size_t>(id)][0]; }
  const std::pair<ValueId, ValueId>& moments(TensorId id) const { return moments_.at(id); }
  // A parameter of 16 bits in f32; -1: the parameter is f32 itself.
  ValueId master(TensorId id) const;
  // Whether the operation is the first to need some bucket of gathered parameters.
  bool starts_bucket(OpId op) const { return !starts_.at(static_cast<size_t>(op)).empty(); }
  // Gathers those of the buckets that are kept for a pass, and those that come behind them.
  void start_buckets(const Scope& scope);
  // Of parameters kept for a pass nothing is there any more.
  void end_pass();
  // Gathers the bucket with that parameter in that layout; false where there is none.
  bool gather(const Scope& scope, TensorId id, const Layout& wanted);

 private:
  void add_values(TensorId id);
  void gather(const Scope& scope, int bucket);

  const LoweringInput& input_;
  ProgramBuilder& builder_;
  std::vector<ValueIds> copies_;                             // per tensor
  std::map<TensorId, std::pair<ValueId, ValueId>> moments_;  // m and v
  std::map<TensorId, ValueId> masters_;
  GatheredParameters gathered_;
  std::vector<std::vector<int>> starts_;  // per operation: buckets that begin with it
};

// What the forward pass of a microbatch leaves to its backward pass.
struct ForwardValues {
  std::vector<ValueIds> copies;    // per tensor: its values, one per layout; the first is what its
                                   // operation wrote
  std::vector<ValueIds> operands;  // per operation: the inputs as it read them
  std::vector<ValueIds> saved;     // per operation: kept for its backward pass; of a routing, the
                                   // sums that its losses are computed from
};
// Results that are sums over all microbatches: per operation, the first one's.
struct ForwardSums {
  std::map<OpId, ValueId> loads, routers, losses;
};
// Of the microbatches of a group; returns them per microbatch.
std::vector<ForwardValues> write_forward(const LoweringInput& input, int group,
                                         Parameters& parameters, ForwardSums& sums,
                                         ProgramBuilder& builder);
// Sums what the host reads over all ranks. Of that, the backward pass needs the routers' sums only.
void reduce_results(const LoweringInput& input, ProgramBuilder& builder);
// Makes Program::logits of what the loss reads.
void keep_logits(const LoweringInput& input, const ForwardValues& values, ProgramBuilder& builder);

// Summands of one gradient that have one layout, added up.
struct GradientSum {
  Layout layout;
  ValueId value = -1;
  bool written = false;  // a parameter's: something has been added
};

// The gradients of parameters: summed over operations and microbatches, and sent in buckets.
class ParameterGradients {
 public:
  using Bucket = std::vector<TensorId>;
  // Parameters whose gradients take the same way, from the same layouts to the same ones: they
  // share buckets.
  struct Group {
    std::vector<Layout> sums;
    Layout total;
    Layout storage;
    Bucket members;              // in the order in which the backward pass completes them
    Bucket complete;             // and not yet sent
    int64_t complete_bytes = 0;  // of their gradients, global
    std::vector<Bucket> buckets;

    bool takes_the_way_of(const Group& other) const {
      return sums == other.sums && total == other.total && storage == other.storage;
    }
  };
  // Where an operation leaves what it adds to a gradient.
  struct Target {
    ValueId value;
    bool accumulate;
  };

  ParameterGradients(const LoweringInput& input, const Parameters& parameters,
                     ProgramBuilder& builder);

  const std::vector<Group>& groups() const { return groups_; }
  int bucket_count() const { return buckets_; }
  ValueId total(TensorId id) const { return gradients_.at(id).total; }
  std::string name(TensorId id) const { return input_.graph.tensor(id).name + ".gradient"; }
  // Where the operation writes or adds its contribution to an input's gradient.
  Target target(OpId op, size_t input);
  bool has_summand(OpId op, size_t input) { return sum(op, input).written; }
  // Parameters for whose gradients the operation, in the last microbatch, adds the last summand.
  Bucket completed_by(OpId op) const;
  // Sends the gradients that the operation completes as soon as they fill a bucket.
  void complete(const Scope& scope, OpId op);
  // Sends those that are complete, of groups that have `least` bytes or more of them.
  void close(const Scope& scope, int64_t least);
  // Bytes, global, that the operation completes and that are sent.
  int64_t bytes_to_send(OpId op) const;
  // Of parameters kept for a pass: what begins sums, from that instruction of the program on, comes
  // after the bucket before the last one has been sent, so that its memory is free.
  void order_sums(size_t first) const;

 private:
  // The rules that use the parameter leave sums in one layout or several; the total is in the
  // layout of the optimizer's state.
  struct Gradient {
    ValueId total = -1;
    std::vector<GradientSum> sums;
    OpId completed_by = -1;  // the last operation of the backward pass that adds to it
    size_t group = 0;
  };

  GradientSum& sum(OpId op, size_t input);
  void collect_sums();
  void make_groups();
  void add_values(const Parameters& parameters, const Group& group);
  void close_bucket(const Scope& scope, Group& group);
  int64_t bytes(TensorId id) const;
  // Per value: whether it is a sum that goes when it has been sent.
  std::vector<bool> passing_sums() const;

  const LoweringInput& input_;
  ProgramBuilder& builder_;
  std::map<TensorId, Gradient> gradients_;
  std::vector<Group> groups_;
  int buckets_ = 0;
};

class ForwardAgain;
// Of the same group.
void write_backward(const LoweringInput& input, int group,
                    const std::vector<ForwardValues>& forward, ForwardAgain& again,
                    ParameterGradients& gradients, ProgramBuilder& builder);

void write_update(const LoweringInput& input, const Parameters& parameters,
                  const ParameterGradients& gradients, ProgramBuilder& builder);

}  // namespace hidup
