#include "runtime/hierarchy.h"

#include <cstddef>
#include <numeric>
#include <utility>

#include "sharding/placement.h"

namespace hidup {
namespace {

std::byte* at(void* data, int64_t elements, DType dtype) {
  return static_cast<std::byte*>(data) + elements * size_of(dtype);
}

}  // namespace

int64_t sum_of(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

AxisPieces pieces_of(const Communicator& axis, const std::vector<int64_t>& counts) {
  AxisPieces pieces;
  const size_t around = counts.size() / static_cast<size_t>(axis.size());
  for (int rank = 0; rank < axis.size(); ++rank) {
    const auto first = counts.begin() + static_cast<std::ptrdiff_t>(around) * rank;
    const std::vector<int64_t> of_rank(first, first + static_cast<std::ptrdiff_t>(around));
    pieces.counts.push_back(sum_of(of_rank));
    if (rank < axis.rank()) {
      pieces.start += pieces.counts.back();
    } else if (rank == axis.rank()) {
      pieces.mine = of_rank;
    }
  }
  return pieces;
}

Hierarchy::Hierarchy(Communicator& axis, std::vector<Communicator*> inner,
                     std::vector<CollectiveAlgorithm> algorithms)
    : axes_(std::move(inner)), algorithms_(std::move(algorithms)) {
  axes_.insert(axes_.begin(), &axis);
}

CollectiveAlgorithm Hierarchy::algorithm(size_t part) const {
  return algorithms_.empty() ? CollectiveAlgorithm::automatic : algorithms_.at(part);
}

void Hierarchy::all_reduce(Stream& stream, void* data, int64_t count, DType dtype,
                           const std::string& name) const {
  std::vector<std::vector<int64_t>> offsets(axes_.size());  // of the pieces of each inner axis
  std::vector<std::byte*> pieces = {static_cast<std::byte*>(data)};  // one per inner axis
  const auto counts_along = [&](size_t a) {
    std::vector<int64_t> counts(offsets[a].size() - 1);
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i] = offsets[a][i + 1] - offsets[a][i];
    }
    return counts;
  };
  size_t part = 0;
  for (size_t a = axes_.size(); a-- > 1;) {
    const auto rank = static_cast<size_t>(axes_[a]->rank());
    offsets[a] = balanced_offsets(count, axes_[a]->size());
    std::byte* const whole = pieces.back();
    pieces.push_back(at(whole, offsets[a][rank], dtype));
    axes_[a]->reduce_scatter(stream, whole, pieces.back(), counts_along(a), dtype,
                             algorithm(part++), name);
    count = offsets[a][rank + 1] - offsets[a][rank];
  }
  axes_[0]->all_reduce(stream, pieces.back(), count, dtype, algorithm(part++), name);
  for (size_t a = 1; a < axes_.size(); ++a) {
    const std::byte* const piece = pieces.back();
    pieces.pop_back();
    axes_[a]->all_gather(stream, piece, pieces.back(), counts_along(a), dtype, algorithm(part++),
                         name);
  }
}

void Hierarchy::all_gather(Stream& stream, const void* send, void* receive,
                           const std::vector<int64_t>& counts, DType dtype,
                           const std::string& name) const {
  std::vector<AxisPieces> pieces;  // along the inner axes, innermost first
  std::vector<int64_t> left = counts;
  for (size_t a = axes_.size(); a-- > 1;) {
    pieces.push_back(pieces_of(*axes_[a], left));
    left = pieces.back().mine;
  }
  int64_t start = 0;
  for (const AxisPieces& each : pieces) {
    start += each.start;
  }
  axes_[0]->all_gather(stream, send, at(receive, start, dtype), left, dtype, algorithm(0), name);
  for (size_t a = 1; a < axes_.size(); ++a) {
    const AxisPieces& along = pieces[axes_.size() - 1 - a];
    const std::byte* const mine = at(receive, start, dtype);
    start -= along.start;
    axes_[a]->all_gather(stream, mine, at(receive, start, dtype), along.counts, dtype, algorithm(a),
                         name);
  }
}

void Hierarchy::reduce_scatter(Stream& stream, const void* send, void* receive,
                               const std::vector<int64_t>& counts, DType dtype,
                               const std::string& name) const {
  std::vector<int64_t> left = counts;
  for (size_t a = axes_.size(); a-- > 1;) {
    AxisPieces along = pieces_of(*axes_[a], left);
    std::byte* const mine = at(const_cast<void*>(send), along.start, dtype);
    axes_[a]->reduce_scatter(stream, send, mine, along.counts, dtype,
                             algorithm(axes_.size() - 1 - a), name);
    send = mine;
    left = std::move(along.mine);
  }
  axes_[0]->reduce_scatter(stream, send, receive, left, dtype, algorithm(axes_.size() - 1), name);
}

}  // namespace hidup
