#include "program/gathered.h"

#include <fmt/format.h>

#include <algorithm>

#include "program/lowering.h"
#include "sharding/reshard.h"

namespace hidup {

int GatheredParameters::plan(OpId op, TensorId id, const Layout& wanted) {
  const ParameterStrategy& stored = input_.stored(id);
  const int chunk = input_.chunk_of(op);
  const bool of_a_pass = stored.residency == Residency::pass;
  if (reshards_locally(stored.storage, wanted, builder_.mesh()) || bucket_of(id, wanted) >= 0) {
    return -1;
  }
  const auto open = std::find_if(buckets_.rbegin(), buckets_.rend(), [&](const Bucket& bucket) {
    return bucket.storage == stored.storage && bucket.wanted == wanted &&
           (bucket.step >= 0) == of_a_pass && (!of_a_pass || chunk_of_step(bucket.step) == chunk);
  });
  int number = static_cast<int>(buckets_.rend() - open) - 1;
  const bool begins = open == buckets_.rend() || open->bytes >= input_.options.bucket_bytes;
  if (begins) {
    number = static_cast<int>(buckets_.size());
    buckets_.push_back({stored.storage, wanted});
    if (of_a_pass) {
      add_to_step(op, number);
    }
  }
  const Tensor& tensor = input_.graph.tensor(id);
  at(number).parameters.push_back(id);
  at(number).bytes += elements(tensor.shape) * size_of(tensor.dtype);
  bucket_of_[{id, to_string(wanted)}] = number;
  return begins ? number : -1;
}

void GatheredParameters::add_to_step(OpId op, int bucket) {
  if (steps_.empty() || steps_.back().op != op) {
    steps_.push_back({op, {}});
  }
  steps_.back().buckets.push_back(bucket);
  at(bucket).step = static_cast<int>(steps_.size()) - 1;
}

int GatheredParameters::bucket_of(TensorId id, const Layout& wanted) const {
  const auto found = bucket_of_.find({id, to_string(wanted)});
  return found == bucket_of_.end() ? -1 : found->second;
}

int GatheredParameters::chunk_of_step(int step) const {
  return input_.chunk_of(steps_[static_cast<size_t>(step)].op);
}

bool GatheredParameters::is_kept_for_a_pass(int bucket) const {
  return at(bucket).step >= 0;
}

std::vector<GatheredParameters::Copy> GatheredParameters::gather(
    const Scope& scope, int bucket, const std::vector<ValueIds>& stored) {
  std::vector<Copy> copies;
  const int step = at(bucket).step;
  if (step < 0) {
    write(scope, bucket, stored, {}, copies);
    return copies;
  }
  write(scope, step, stored, copies);
  if (step + 1 < static_cast<int>(steps_.size()) &&
      chunk_of_step(step) == chunk_of_step(step + 1)) {
    write(scope, step + 1, stored, copies);
  }
  return copies;
}

void GatheredParameters::write(const Scope& scope, int step, const std::vector<ValueIds>& stored,
                               std::vector<Copy>& copies) {
  const ValueIds used = step < 2 ? ValueIds{} : values_of(steps_[static_cast<size_t>(step) - 2]);
  for (const int bucket : steps_[static_cast<size_t>(step)].buckets) {
    write(scope, bucket, stored, used, copies);
  }
}

ValueIds GatheredParameters::values_of(const Step& step) const {
  ValueIds values;
  for (const int bucket : step.buckets) {
    values.insert(values.end(), at(bucket).gathered.begin(), at(bucket).gathered.end());
  }
  return values;
}

void GatheredParameters::write(const Scope& scope, int bucket, const std::vector<ValueIds>& stored,
                               const ValueIds& used, std::vector<Copy>& copies) {
  Bucket& gathered = at(bucket);
  if (!gathered.gathered.empty()) {
    return;
  }
  ValueIds values;
  for (const TensorId id : gathered.parameters) {
    values.push_back(stored[static_cast<size_t>(id)][0]);
  }
  const std::string name = gathered.parameters.size() == 1
                               ? input_.graph.tensor(gathered.parameters[0]).name
                               : fmt::format("parameters.{}", bucket);
  const Scope of_bucket{.phase = scope.phase,
                        .list = scope.list,
                        .microbatch = scope.microbatch,
                        .common = true,
                        .bucket = bucket};
  const size_t written = builder_.length(scope);
  gathered.gathered = builder_.reshard(of_bucket, values, gathered.wanted, name, false);
  for (Instruction& instruction : builder_.from(scope, written)) {
    instruction.recomputed = scope.phase == Phase::backward;
    if (instruction.stream == StreamKind::comm) {
      instruction.after_uses_of = used;
    }
  }
  for (size_t i = 0; i < gathered.parameters.size(); ++i) {
    copies.push_back({gathered.parameters[i], gathered.gathered[i]});
  }
}

ValueId GatheredParameters::value(TensorId id, const Layout& wanted) const {
  const Bucket& bucket = at(bucket_of(id, wanted));
  const auto place = std::ranges::find(bucket.parameters, id);
  return bucket.gathered.at(static_cast<size_t>(place - bucket.parameters.begin()));
}

void GatheredParameters::end_pass() {
  for (Bucket& bucket : buckets_) {
    if (bucket.step >= 0) {
      bucket.gathered.clear();
    }
  }
}

}  // namespace hidup
