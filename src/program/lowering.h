// Shared parts of the passes of lower(); for the sources of this folder only.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "program/builder.h"
#include "program/gathered.h"
#include "program/lower.h"
#include "sharding/stages.h"

namespace hidup {

// The input of the passes: the graph, the strategy, and the consumers of every tensor.
struct LoweringInput {
  LoweringInput(const Graph& model, const Strategy& chosen, const LoweringOptions& how,
                bool training);

  const Graph& graph;
  const Strategy strategy;
  const LoweringOptions& options;
  const bool trains;                        // backward pass and update follow the forward pass
  const Stages stages;                      // of a pipeline
  std::vector<std::vector<OpId>> chunks;    // operations of each, rising
  std::vector<int> consumers;               // number, per tensor
  std::vector<std::vector<Layout>> wanted;  // per tensor: the layouts that its consumers want
  std::vector<const ParameterStrategy*> storage;  // per tensor; null: no parameter

  OpId op_count() const { return static_cast<OpId>(graph.ops().size()); }
  Tensor::Role role(TensorId id) const { return graph.tensor(id).role; }
  bool is_parameter(TensorId id) const { return role(id) == Tensor::Role::parameter; }
  bool is_learned(TensorId id) const { return is_parameter(id) && graph.tensor(id).learned; }
  const OpStrategy& rules(OpId op) const { return strategy.ops[static_cast<size_t>(op)]; }
  int consumers_of(TensorId id) const { return consumers[static_cast<size_t>(id)]; }
  const ParameterStrategy& stored(TensorId id) const { return *storage[static_cast<size_t>(id)]; }
  int microbatches() const { return strategy.microbatches * strategy.accumulate; }  // in all groups
  int chunk_of(OpId op) const { return stages.chunk_of[static_cast<size_t>(op)]; }
  const std::vector<OpId>& ops_of(int chunk) const { return chunks[static_cast<size_t>(chunk)]; }
  // Returns true where the backward pass recomputes the operation's output.
  bool recomputes(OpId op) const {
    return trains && rules(op).recompute && can_recompute(graph, op);
  }
  // Returns true where the backward pass of the activation's producer reads the activation.
  bool needed_by_producer(TensorId activation) const;
  // Returns true where the backward pass of the operation reads its input i.
  bool needs_input(const Op& op, size_t i) const;
  // Returns a value for the tensor, or for the microbatch's part of an input or activation.
  Value value_of(TensorId id, std::string name, const Layout& layout, int microbatch) const;
  // Cuts the microbatch's part out of a value whose dimension `dim` is the batch.
  void split(Value& value, int dim, int microbatch) const;
  // Returns true where ranks exchange rows packed by these counts, have some of the experts, or
  // draw random numbers for a row: then sizes of values or messages, or masks, are data.
  bool exchanges_rows(TensorId counts) const;
  // Returns true where only the axis's ranks of the share have rows packed by these counts.
  bool keeps_rows_at(TensorId counts, size_t axis, ShareNumber share) const;
  // Returns the layouts of the rows of all rounds and of their gradients, where summands count as
  // whole.
  std::set<Layout> layouts_of_rows(TensorId counts) const;
  // Returns attributes that make the loss the mean over all targets of the step, on all ranks.
  LossAttributes loss_attributes(const Op& op) const;
  // Returns the attributes of a route operation that has losses of its own.
  RouterLossAttributes router_loss_attributes(const Op& op) const;
  // Returns the name of the stream of random numbers of a dropout mask, the same in both passes.
  std::string random_purpose(OpId op) const;
};

// A model without its training-only operations, and the strategy for the remaining ones.
struct InferenceModel {
  Graph graph;
  Strategy strategy;
  std::vector<OpId> original_ops;  // per operation: its id in the original model
};
InferenceModel without_training(const Graph& graph, const Strategy& strategy);

// The values that persist from step to step, and the copies of parameters that a step makes.
class Parameters {
 public:
  Parameters(const LoweringInput& input, ProgramBuilder& builder);

  // Returns the copies of a parameter: the stored one, then the gathered ones.
  ValueIds& copies(TensorId id) { return copies_[static_cast<size_t>(id)]; }
  const ValueIds& copies(TensorId id) const { return copies_[static_cast<size_t>(id)]; }
  const std::vector<ValueIds>& all() const { return copies_; }  // per tensor
  ValueId stored(TensorId id) const { return copies_[static_cast<size_t>(id)][0]; }
  const std::pair<ValueId, ValueId>& moments(TensorId id) const { return moments_.at(id); }
  // Returns the f32 copy of a 16-bit parameter; -1: the parameter itself is f32.
  ValueId master(TensorId id) const;
  // Returns true where the operation is the first to need a bucket of gathered parameters.
  bool starts_bucket(OpId op) const { return !starts_.at(static_cast<size_t>(op)).empty(); }
  // Gathers the operation's buckets with residency Residency::pass, and the next ones.
  void start_buckets(const Scope& scope);
  // Forgets the copies of parameters with residency Residency::pass.
  void end_pass();
  // Gathers the bucket with that parameter in that layout; returns false without such a bucket.
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
  std::vector<std::vector<int>> starts_;  // per operation: the buckets that begin with it
};

// A pass of the microbatches of a group, over the operations of a chunk.
struct TaskLists {
  pipeline::Task task;
  int first_list = 0;  // of the builder; one for every microbatch of the group
};

// The values that a microbatch's forward pass leaves to its backward pass.
struct ForwardValues {
  std::vector<ValueIds> copies;    // per tensor: one per layout, first the one its operation wrote
  std::vector<ValueIds> operands;  // per operation: the inputs in the layouts it read
  std::vector<ValueIds> saved;     // per operation: the values saved for its backward pass; for a
                                   // routing, the sums for its losses
};
struct ForwardState {
  std::map<int, ForwardValues> values;  // by microbatch
  // Results that are sums over all microbatches, per operation: the values of the first microbatch.
  std::map<OpId, ValueId> loads, routers, losses;
};
// Writes a forward task.
void write_forward(const LoweringInput& input, const TaskLists& lists, Parameters& parameters,
                   ForwardState& state, ProgramBuilder& builder);
// Sums the results for the host over all ranks. The backward pass needs only the routers' sums.
void reduce_results(const LoweringInput& input, ProgramBuilder& builder);
// Sets Program::logits to the loss's input.
void keep_logits(const LoweringInput& input, const ForwardValues& values, ProgramBuilder& builder);

// The sum of a gradient's summands that have one layout.
struct GradientSum {
  Layout layout;
  ValueId value = -1;
  bool written = false;  // for parameters: the sum has at least one summand
};

// The gradients of parameters, summed over operations and microbatches and sent in buckets.
class ParameterGradients {
 public:
  using Bucket = std::vector<TensorId>;
  // Parameters that share buckets, because their gradients pass through the same layouts.
  struct Group {
    std::vector<Layout> sums;
    Layout total;
    Layout storage;
    Bucket members;              // in the order in which the backward pass completes them
    Bucket complete;             // complete and not yet sent
    int64_t complete_bytes = 0;  // global bytes of their gradients
    std::vector<Bucket> buckets;

    bool takes_the_way_of(const Group& other) const {
      return sums == other.sums && total == other.total && storage == other.storage;
    }
  };
  // The place for an operation's contribution to a gradient.
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
  // Returns the place where the operation writes or adds its contribution to an input's gradient.
  Target target(OpId op, size_t input);
  bool has_summand(OpId op, size_t input) { return sum(op, input).written; }
  // Returns the parameters whose gradients the operation is the last to add to in a backward pass.
  Bucket completed_by(OpId op) const;
  // Notes that the operation added to its gradients in one microbatch. Sends those that are
  // complete with it as soon as they fill a bucket.
  void add_pass(const Scope& scope);
  // Sends the complete gradients of every group that has at least `least` bytes of them.
  void close(const Scope& scope, int64_t least);
  // Returns the global bytes of the gradients that the operation completes and that are sent.
  int64_t bytes_to_send(OpId op) const;
  // Delays, from instruction `first` of the program on, the first summands of gradients with
  // residency Residency::pass until the bucket before the last one has been sent and its memory is
  // free.
  void order_sums(size_t first) const;

 private:
  // The operations that use the parameter leave sums in one or more layouts. The total has the
  // layout of the optimizer state.
  struct Gradient {
    ValueId total = -1;
    std::vector<GradientSum> sums;
    OpId completed_by = -1;  // the last operation of the backward pass that adds to the gradient
    int missing = 0;         // operations and microbatches that have not added yet
    size_t group = 0;
  };

  GradientSum& sum(OpId op, size_t input);
  void collect_sums();
  void make_groups();
  void add_values(const Parameters& parameters, const Group& group);
  // Sends the complete gradients in one bucket for each piece of memory.
  void close_buckets(const Scope& scope, Group& group);
  void send_bucket(const Scope& scope, Group& group, const Bucket& bucket);
  int64_t bytes(TensorId id) const;
  // Returns, per value, true for a sum that is freed once it has been sent.
  std::vector<bool> transient_sums() const;

  const LoweringInput& input_;
  ProgramBuilder& builder_;
  std::map<TensorId, Gradient> gradients_;
  std::vector<Group> groups_;
  int buckets_ = 0;
};

// A step of an operation's backward pass that a weights pass does, and the gradient that it reads.
struct WeightsStep {
  OpId op;
  const BackwardStep* step;
  ValueId output_gradient;
};

struct BackwardState {
  struct Microbatch {
    std::vector<std::vector<GradientSum>> sums;       // per activation
    std::map<int, std::vector<WeightsStep>> weights;  // by chunk
  };
  std::map<int, Microbatch> microbatches;
  // Number of sums and of steps to come that hold each value, so that nothing overwrites it.
  std::map<ValueId, int> holders;
};
class Recomputation;
// Writes a backward or weights task. `splits`: a weights task follows the backward task.
void write_backward(const LoweringInput& input, const TaskLists& lists, bool splits,
                    const ForwardState& forward, Recomputation& recomputation,
                    ParameterGradients& gradients, BackwardState& state, ProgramBuilder& builder);

void write_update(const LoweringInput& input, const Parameters& parameters,
                  const ParameterGradients& gradients, const ForwardState& forward,
                  ProgramBuilder& builder);

}  // namespace hidup
