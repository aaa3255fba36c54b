#include "search/problem/transient_bytes.h"

#include <algorithm>

namespace hidup {
namespace {

struct ParameterBucket {
  double gathered = 0.0, sums = 0.0;  // bytes
};

// Returns the buckets in the order of the first use of each parameter, as they are gathered.
std::vector<ParameterBucket> buckets_of(const Graph& graph, int64_t bucket_bytes) {
  std::vector<ParameterBucket> buckets(1);
  std::vector<bool> seen(graph.tensors().size());
  for (const Op& op : graph.ops()) {
    if (buckets.back().gathered >= static_cast<double>(bucket_bytes)) {
      buckets.emplace_back();
    }
    for (const TensorId id : op.inputs) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.role == Tensor::Role::parameter && !seen[static_cast<size_t>(id)]) {
        seen[static_cast<size_t>(id)] = true;
        const auto count = static_cast<double>(elements(tensor.shape));
        buckets.back().gathered += count * static_cast<double>(size_of(tensor.dtype));
        buckets.back().sums += count * static_cast<double>(size_of(DType::f32));
      }
    }
  }
  return buckets;
}

// Returns the most bytes in memory at a time, over all first buckets, relative to all gathered.
double most_at_a_time(const std::vector<ParameterBucket>& buckets, size_t sums_at_a_time) {
  constexpr size_t kGatheredAtATime = 2;
  double gathered = 0.0;
  double most = 0.0;
  for (size_t first = 0; first < buckets.size(); ++first) {
    gathered += buckets[first].gathered;
    double bytes = 0.0;
    for (size_t b = first; b < std::min(first + sums_at_a_time, buckets.size()); ++b) {
      bytes += buckets[b].sums + (b < first + kGatheredAtATime ? buckets[b].gathered : 0.0);
    }
    most = std::max(most, bytes);
  }
  return most / std::max(gathered, 1.0);
}

double kept_activations(const Graph& graph, const std::vector<int>& reads) {
  double bytes = 0.0;
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors().size()); ++id) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.role == Tensor::Role::activation && reads[static_cast<size_t>(id)] > 0) {
      bytes += static_cast<double>(elements(tensor.shape) * size_of(tensor.dtype));
    }
  }
  return bytes;
}

}  // namespace

TransientMemory::TransientMemory(const Graph& graph, const std::vector<int>& reads, int64_t ranks,
                                 int64_t bucket_bytes, int microbatches, bool all_sums)
    : all_sums_(all_sums),
      gathered_(most_at_a_time(buckets_of(graph, bucket_bytes), microbatches > 1 ? 3 : 2)) {
  const double sums =
      static_cast<double>(graph.parameter_count()) * static_cast<double>(size_of(DType::f32));
  room_ = kept_activations(graph, reads) / static_cast<double>(ranks) / std::max(sums, 1.0);
}

double TransientMemory::bytes(const std::vector<TransientBytes>& parameters,
                              const std::vector<Residency>& residencies) const {
  double total = 0.0;
  TransientBytes for_step;
  for (size_t p = 0; p < parameters.size(); ++p) {
    const TransientBytes& one = parameters[p];
    if (residencies[p] == Residency::pass) {
      total += gathered_ * one.gathered + (all_sums_ ? one.sums : 0.0);
    } else {
      for_step.gathered += one.gathered;
      for_step.sums += one.sums;
      for_step.undivided += one.undivided;
    }
  }
  // Gathered copies are freed, too, as sums grow.
  const double room = all_sums_ ? 0.0 : for_step.gathered + room_ * for_step.undivided;
  const double sums = std::max(0.0, for_step.sums - room);
  return total + for_step.gathered + sums;
}

}  // namespace hidup
