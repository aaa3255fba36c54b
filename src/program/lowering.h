// How lower() works inside; for the sources of this folder only.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "program/lower.h"

namespace hidup {

// Writes the instruction list: forward (forward.cpp), backward (backward.cpp, gradients.cpp),
// update (update.cpp); in between, what changes layouts (reshard.cpp). Both passes are written once
// per microbatch, and the lists of the microbatches then woven into one (duplex.cpp).
class Lowering {
 public:
  Lowering(const Graph& graph, const Strategy& strategy, const LoweringOptions& options);
  Program run();

 private:
  using Operands = std::vector<ValueId>;

  // Summands of one gradient that have one layout, added up.
  struct Sum {
    Layout layout;
    ValueId value = -1;
    bool written = false;  // a parameter's: something has been added
  };
  // A parameter's gradient. The rules that use the parameter leave sums in one layout or
  // several; the total is in the layout of the optimizer's state.
  struct ParameterGradient {
    ValueId total = -1;
    std::vector<Sum> sums;
    OpId completed_by = -1;  // the last operation of the backward pass that adds to it
    size_t group = 0;
  };
  // Parameters whose gradients take the same way, from the same layouts to the same ones: they
  // share buckets.
  struct GradientGroup {
    std::vector<Layout> sums;
    Layout total;
    Layout storage;
    std::vector<TensorId> members;   // in the order in which the backward pass completes them
    std::vector<TensorId> complete;  // and not yet sent
    int64_t complete_bytes = 0;      // of their gradients, global
    std::vector<std::vector<TensorId>> buckets;

    bool operator==(const GradientGroup& other) const {
      return sums == other.sums && total == other.total && storage == other.storage;
    }
  };
  // Parameters stored in one layout and used in another, gathered together: in order of use, and
  // when the first of them is needed (the communication stream runs ahead, so that the next
  // bucket comes while this one is used).
  struct ParameterBucket {
    Layout storage;
    Layout wanted;
    std::vector<TensorId> parameters;
    int64_t bytes = 0;  // global, as they are stored
  };
  // Where an operation leaves what it adds to a gradient.
  struct Target {
    ValueId value;
    bool accumulate;
  };

  // What belongs to one microbatch.
  struct Lane {
    std::vector<Operands> copies;            // per tensor: its values, one per layout; the first
                                             // is what its operation wrote
    std::vector<Operands> operands;          // per operation: the inputs as it read them
    std::vector<Operands> saved;             // per operation: kept for its backward pass
    std::vector<std::vector<Sum>> gradient;  // per activation: contributions so far
    std::vector<Instruction> instructions;   // of the pass that is being written
    std::vector<size_t> cuts;                // where in them a bucket of parameters is needed, or
                                             // one of gradients complete; rising
  };

  static size_t index(int32_t id) { return static_cast<size_t>(id); }
  OpId op_count() const { return static_cast<OpId>(graph_.ops().size()); }
  Tensor::Role role(TensorId id) const { return graph_.tensor(id).role; }
  bool differentiable(TensorId id) const {
    return role(id) != Tensor::Role::input && is_floating(graph_.tensor(id).dtype);
  }
  const OpStrategy& ways(OpId op) const { return strategy_.ops[index(op)]; }
  Lane& lane() { return lanes_[index(microbatch_)]; }
  const Lane& lane() const { return lanes_[index(microbatch_)]; }
  // Values of a tensor: parameters belong to all microbatches.
  Operands& copies(TensorId id) {
    return role(id) == Tensor::Role::parameter ? stored_copies_[index(id)]
                                               : lane().copies[index(id)];
  }
  bool first_lane() const { return microbatch_ == 0; }
  bool last_lane() const { return microbatch_ + 1 == strategy_.microbatches; }
  Layout replicated() const { return Layout(program_.mesh.size(), Placement::replicate()); }

  // Global: of a parameter as it is stored, and of its gradient.
  int64_t bytes_of(TensorId id) const;
  int64_t gradient_bytes_of(TensorId id) const;
  ValueId add_value(Value value);
  // The microbatch's part of a tensor (or all of it, of a parameter).
  ValueId add_tensor(TensorId id, const std::string& name, const Layout& layout);
  // The part of the batch that is this microbatch's: of a shape with the batch as `dim`.
  void split(Value& value, int dim) const;
  ValueId add_scalar(const std::string& name, Value::Role role, const Layout& layout);
  Instruction& emit(Opcode opcode, const std::string& name, Operands inputs, Operands outputs);
  // Names the mask's random numbers; the same in both passes.
  std::string dropout_purpose(OpId op) const { return "dropout/" + graph_.op_name(op); }
  // The loss is the mean over all targets of the step, on all ranks.
  double loss_scale(const Op& op) const;

  // A value in another layout: itself, or a new one, or `into` where that is given. `overwrite`:
  // nobody needs the old one any more.
  ValueId reshard(ValueId from, const Layout& to, const std::string& name, bool overwrite);
  // Values of one layout; one instruction where all of them communicate. `into`: empty, or where
  // the results go.
  Operands reshard_all(const Operands& from, const Layout& to, const std::string& name,
                       bool overwrite, const Operands& into = {});
  void emit_reshard(Opcode opcode, size_t axis, const std::string& name, const Operands& inputs,
                    Operands outputs);
  bool one_piece(const Operands& values) const;

  // Puts the lanes' instructions in the program: stage by stage, in each stage one microbatch after
  // the other, so that one computes while another communicates.
  void weave();

  void prepare();
  void add_parameters();
  void plan_parameter_buckets();
  void gather_parameters(const ParameterBucket& bucket);
  // The value of the tensor in that layout; -1 if there is none yet.
  ValueId copy_in(TensorId id, const Layout& layout);
  // The value that holds an operand as the rule wants it.
  ValueId operand(OpId op, size_t input);
  ValueId add_input(TensorId id, const Layout& layout);
  // Whether the operation may write over that input: it is an activation that nobody
  // else reads, in the forward pass or in the backward pass.
  bool overwrites(OpId op, size_t input) const;
  bool needed_by_producer(TensorId id) const;
  ValueId add_output(OpId id, const Operands& inputs);
  void forward(OpId id);
  void emit_cross_entropy(OpId id, const Operands& inputs, ValueId loss, ValueId lse);
  void emit_expert_load(OpId id, ValueId routing);
  std::vector<Shape> shapes_of(const Op& op) const;
  // For people only: the backward pass does not need the sums.
  void reduce_results();

  std::string gradient_name(TensorId id) const;
  // Parameters' gradients are summed in f32.
  DType gradient_dtype(TensorId id) const {
    return role(id) == Tensor::Role::parameter ? DType::f32 : graph_.tensor(id).dtype;
  }
  // The value itself where it has that type, otherwise a rounded one in `into`, or in a new value.
  ValueId converted(ValueId value, DType dtype, const std::string& name, ValueId into = -1);
  void add_gradients();
  std::vector<TensorId> completed_by(OpId op) const;  // parameters, no more gradients to add
  // What belongs to no microbatch: emitted by `work`.
  template <typename Work>
  auto in_common(Work work) {
    const bool before = std::exchange(common_, true);
    auto result = work();
    common_ = before;
    return result;
  }
  // A contribution to the gradient of an input, by itself. f32: of a parameter, as it is summed;
  // otherwise as the input is.
  ValueId activation_gradient(OpId op, size_t input, bool f32 = false);
  // The gradient of the operation's output, in the layout that its rule wants; each
  // contribution has been added by now.
  ValueId output_gradient(OpId op);
  // Whether no tensor whose gradient is still to be used shares this value.
  bool unshared(ValueId value) const;
  ValueId add(ValueId a, ValueId b, const std::string& name);
  // Where the operation writes or adds its contribution to a parameter's gradient.
  Target target_of(OpId op, size_t input);
  // Adds a finished contribution to the gradient of an input.
  void contribute(OpId op, size_t input, ValueId value);
  // Sends the gradients that the operation completes, in buckets of `least` bytes or more.
  void complete_gradients(OpId op);
  // Ends the lane's stage where the gradients since the last end fill a bucket, so that a bucket
  // need not wait for the other microbatches' whole backward pass.
  void cut_behind_bucket(OpId op, int64_t& bytes);
  void close_buckets(int64_t least);
  void close_bucket(GradientGroup& group);

  void backward(OpId id);
  Instruction& emit_gradient(OpId op, size_t input, Opcode opcode, Operands inputs);
  void matmul_input_gradient(OpId id, Opcode opcode, Operands inputs);
  // dx = f(dy) element by element: over dy itself where nobody else needs it.
  void elementwise_gradient(OpId id, Opcode opcode, Operands inputs, ValueId dy);
  void layer_norm_gradient(OpId id, ValueId dy);
  void combine_gradient(OpId id, ValueId dy);
  void cross_entropy_gradient(OpId id);

  void update();
  ValueId squared_norm();
  Operands round_masters(const GradientGroup& group, const std::vector<TensorId>& bucket,
                         const std::string& name);
  void update_bucket(const GradientGroup& group, const std::vector<TensorId>& bucket,
                     ValueId scale);

  const Graph& graph_;
  const Strategy strategy_;
  const LoweringOptions& options_;
  Program program_;
  std::vector<Lane> lanes_;
  std::vector<Operands> stored_copies_;      // per parameter: as stored, then as gathered
  std::map<ValueId, int> holders_;           // how many sums in Lane::gradient are this value
  std::map<OpId, ValueId> loads_;            // per routing: its experts' load
  std::vector<int> consumers_;               // per tensor
  std::vector<std::vector<Layout>> wanted_;  // per tensor: the layouts its consumers want
  std::map<TensorId, Operands> moments_;     // per parameter: m and v
  std::map<TensorId, ValueId> masters_;      // per parameter in 16 bits: itself in f32
  std::map<TensorId, ParameterGradient> gradients_;
  std::map<TensorId, const ParameterStrategy*> stored_;
  std::vector<ParameterBucket> parameter_buckets_;
  std::map<std::pair<TensorId, std::string>, size_t> parameter_bucket_;  // by tensor and layout
  std::set<OpId> gathers_;  // that are the first to need a bucket of parameters
  std::vector<GradientGroup> groups_;
  int buckets_ = 0;
  Phase phase_ = Phase::forward;
  int microbatch_ = 0;   // whose list is being written
  bool common_ = false;  // what is emitted belongs to no microbatch
};

}  // namespace hidup
