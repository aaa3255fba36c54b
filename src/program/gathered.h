// The gathered parameters of a pass; for the sources of this folder only.
//
// Parameters that are gathered for each pass are gathered one operation ahead: a gather comes
// `after_uses_of` the parameters before. Waits enforce that, so the memory plan, the verifier, the
// simulation and the executor all see it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "program/builder.h"

namespace hidup {

struct LoweringInput;

// Parameters that are gathered together, bucket by bucket, in the order in which a pass uses them.
// The communication stream runs ahead, so that the next bucket arrives while one is used. With
// residency Residency::step it runs ahead without limit. With Residency::pass it is one step ahead:
// while the buckets that begin with one operation are used, those of the next one of the same chunk
// arrive, after the last uses of those before.
class GatheredParameters {
 public:
  GatheredParameters(const LoweringInput& input, ProgramBuilder& builder)
      : input_(input), builder_(builder) {}

  // Notes, after all earlier notes, that the operation needs the parameter in that layout. Returns
  // the bucket that begins with the parameter; -1: none.
  int plan(OpId op, TensorId id, const Layout& wanted);
  // Returns the parameter's bucket; -1: it is not gathered.
  int bucket_of(TensorId id, const Layout& wanted) const;
  bool is_kept_for_a_pass(int bucket) const;

  struct Copy {
    TensorId parameter;
    ValueId value;
  };
  // Gathers the bucket unless it is there; with Residency::pass, also the buckets of the next step.
  // Returns the new copies. `stored`: per tensor, the parameter as it is stored.
  std::vector<Copy> gather(const Scope& scope, int bucket, const std::vector<ValueIds>& stored);
  // Returns the gathered parameter.
  ValueId value(TensorId id, const Layout& wanted) const;
  // Forgets the gathered parameters with Residency::pass.
  void end_pass();

 private:
  struct Bucket {
    Layout storage;
    Layout wanted;
    int step = -1;  // for Residency::pass; otherwise -1
    std::vector<TensorId> parameters = {};
    int64_t bytes = 0;       // global bytes in storage
    ValueIds gathered = {};  // per parameter; empty: not gathered
  };

  // The buckets with Residency::pass that begin with one operation.
  struct Step {
    OpId op;
    std::vector<int> buckets;
  };

  void add_to_step(OpId op, int bucket);
  int chunk_of_step(int step) const;
  // Gathers the step's missing buckets, after the uses of the step before the last.
  void write(const Scope& scope, int step, const std::vector<ValueIds>& stored,
             std::vector<Copy>& copies);
  void write(const Scope& scope, int bucket, const std::vector<ValueIds>& stored,
             const ValueIds& used, std::vector<Copy>& copies);
  // Returns the gathered values of the step.
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
