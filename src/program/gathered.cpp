#include "program/gathered.h"

#include <fmt/format.h>

#include <algorithm>

#include "program/lowering.h"
#include "sharding/reshard.h"

namespace hidup {

int GatheredParameters::plan(TensorId id, const Layout& wanted) {
  const ParameterStrategy& stored = input_.stored(id);
  const bool of_a_pass = stored.kept == Kept::pass;
  if (reshards_locally(stored.storage, wanted, builder_.mesh()) || bucket_of(id, wanted) >= 0) {
    return -1;
  }
  const auto open = std::find_if(buckets_.rbegin(), buckets_.rend(), [&](const Bucket& bucket) {
    return bucket.storage == stored.storage && bucket.wanted == wanted &&
           bucket.of_a_pass == of_a_pass;
  });
  int number = static_cast<int>(buckets_.rend() - open) - 1;
  const bool begins = open == buckets_.rend() || open->bytes >= input_.options.bucket_bytes;
  if (begins) {
    number = static_cast<int>(buckets_.size());
    buckets_.push_back({stored.storage, wanted, of_a_pass});
    if (of_a_pass) {
      of_a_pass_.push_back(number);
    }
  }
  const Tensor& tensor = input_.graph.tensor(id);
  at(number).parameters.push_back(id);
  at(number).bytes += elements(tensor.shape) * size_of(tensor.dtype);
  bucket_of_[{id, to_string(wanted)}] = number;
  return begins ? number : -1;
}

int GatheredParameters::bucket_of(TensorId id, const Layout& wanted) const {
  const auto found = bucket_of_.find({id, to_string(wanted)});
  return found == bucket_of_.end() ? -1 : found->second;
}

bool GatheredParameters::is_kept_for_a_pass(int bucket) const {
  return at(bucket).of_a_pass;
}

std::vector<GatheredParameters::Copy> GatheredParameters::gather(
    const Scope& scope, int bucket, const std::vector<ValueIds>& stored) {
  std::vector<Copy> copies;
  write(scope, bucket, stored, {}, copies);
  const auto place = std::ranges::find(of_a_pass_, bucket);
  if (place != of_a_pass_.end() && place + 1 != of_a_pass_.end()) {
    const ValueIds used = place == of_a_pass_.begin() ? ValueIds{} : at(place[-1]).gathered;
    write(scope, place[1], stored, used, copies);
  }
  return copies;
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
  const Scope of_bucket{
      .phase = scope.phase, .microbatch = scope.microbatch, .common = true, .bucket = bucket};
  const size_t written = builder_.length(scope.microbatch);
  gathered.gathered = builder_.reshard(of_bucket, values, gathered.wanted, name, false);
  for (Instruction& instruction : builder_.from(scope.microbatch, written)) {
    instruction.again = scope.phase == Phase::backward;
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
  for (const int bucket : of_a_pass_) {
    at(bucket).gathered.clear();
  }
}

}  // namespace hidup
