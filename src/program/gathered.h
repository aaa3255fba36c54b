// Parameters that a pass gathers; for the sources of this folder only.
//
// Of parameters kept for a pass only the next operation's come ahead: their gather comes
// `after_uses_of` those before. The waits make that true, so that the memory plan, the verifier,
// the simulation and the executor all see it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "program/builder.h"

namespace hidup {

struct LoweringInput;

// Parameters that are gathered together, bucket by bucket, in the order in which a pass uses them.
// The communication stream runs ahead, so that the next bucket comes while one is used. Of
// parameters that are kept for the step it runs ahead as far as it can; of those kept for a pass by
// one step only: while those of an operation are used that begin with it, the next operation's
// come, behind the uses of those before.
class GatheredParameters {
 public:
  GatheredParameters(const LoweringInput& input, ProgramBuilder& builder)
      : input_(input), builder_(builder) {}

  // Notes that the pass needs the parameter in that layout for the operation, behind all that was
  // noted before. Returns the bucket that begins with it; -1: none does.
  int plan(OpId op, TensorId id, const Layout& wanted);
  // -1: it is not gathered.
  int bucket_of(TensorId id, const Layout& wanted) const;
  bool is_kept_for_a_pass(int bucket) const;

  struct Copy {
    TensorId parameter;
    ValueId value;
  };
  // Gathers the bucket unless it is there; of parameters kept for a pass those of the next step,
  // too. Returns what is new. `stored`: per tensor, the parameter as it is stored.
  std::vector<Copy> gather(const Scope& scope, int bucket, const std::vector<ValueIds>& stored);
  // The parameter as it has been gathered.
  ValueId value(TensorId id, const Layout& wanted) const;
  // Of parameters kept for a pass nothing is there any more.
  void end_pass();

 private:
  struct Bucket {
    Layout storage;
    Layout wanted;
    int step = -1;  // of parameters kept for a pass
    std::vector<TensorId> parameters = {};
    int64_t bytes = 0;       // global, as they are stored
    ValueIds gathered = {};  // per parameter; empty: not there
  };

  // Buckets of parameters kept for a pass that begin with one operation.
  struct Step {
    OpId op;
    std::vector<int> buckets;
  };

  void add_to_step(OpId op, int bucket);
  // Those of the step that are not there, behind the uses of the one before the last.
  void write(const Scope& scope, int step, const std::vector<ValueIds>& stored,
             std::vector<Copy>& copies);
  void write(const Scope& scope, int bucket, const std::vector<ValueIds>& stored,
             const ValueIds& used, std::vector<Copy>& copies);
  // What has been gathered in the step.
  ValueIds values_of(const Step& step) const;
  Bucket& at(int bucket) { return buckets_.at(static_cast<size_t>(bucket)); }
  const Bucket& at(int bucket) const { return buckets_.at(static_cast<size_t>(bucket)); }

  const LoweringInput& input_;
  ProgramBuilder& builder_;
  std::vector<Bucket> buckets_;
  std::vector<Step> steps_;
  std::map<std::pair<TensorId, std::string>, int> bucket_of_;  // by tensor and layout
};

}  // namespace hidup
