#include "runtime/rounded_sums.h"

#include <numeric>
#include <utility>

#include "core/check.h"
#include "core/with_type.h"
#include "kernels/add_parts.h"
#include "kernels/convert.h"
#include "runtime/hierarchy.h"
#include "sharding/placement.h"

namespace hidup {
namespace {

// Calls visit() with an element of the 16-bit dtype.
template <typename Visit>
void with_sixteen_bits(DType dtype, Visit visit) {
  with_floating_type(dtype, [&](auto zero) {
    if constexpr (sizeof(zero) == sizeof(uint16_t)) {
      visit(zero);
    } else {
      fail(ExitCode::internal, "a sum is rounded to {}", name_of(DType::f32));
    }
  });
}

}  // namespace

RoundedSums::RoundedSums(Communicator& axis, const std::vector<Communicator*>& inner, DType sent_as,
                         const Buffer& buffer, std::vector<CollectiveAlgorithm> algorithms)
    : axes_(inner), sent_as_(sent_as), buffer_(buffer), algorithms_(std::move(algorithms)) {
  axes_.insert(axes_.begin(), &axis);
}

void RoundedSums::all_reduce(Stream& stream, float* data, int64_t count,
                             const std::string& name) const {
  const std::vector<int64_t> counts = balanced_pieces(count);
  const int64_t start = start_of(counts);
  AxisPieces own{.mine = counts};
  for (size_t a = axes_.size(); a-- > 0;) {
    own = pieces_of(*axes_[a], own.mine);
  }
  reduce_scatter(stream, data, data + start, counts, name);
  round(stream, data + start, start, own.mine.at(0));
  std::vector<CollectiveAlgorithm> gathers;
  if (!algorithms_.empty()) {
    gathers.assign(algorithms_.begin() + static_cast<std::ptrdiff_t>(axes_.size()),
                   algorithms_.end());
  }
  const Hierarchy hierarchy(*axes_[0], {axes_.begin() + 1, axes_.end()}, std::move(gathers));
  hierarchy.all_gather(stream, at(start), at(0), counts, sent_as_, name);
  widen(stream, data, count);
}

void RoundedSums::reduce_scatter(Stream& stream, const float* send, float* receive,
                                 const std::vector<int64_t>& counts,
                                 const std::string& name) const {
  std::vector<int64_t> left = counts;
  for (size_t a = axes_.size(); a-- > 1;) {
    AxisPieces along = pieces_of(*axes_[a], left);
    float* const mine = const_cast<float*>(send) + along.start;
    scatter(stream, a, send, mine, along.counts, name);
    send = mine;
    left = std::move(along.mine);
  }
  scatter(stream, 0, send, receive, left, name);
}

void RoundedSums::scatter(Stream& stream, size_t axis, const float* whole, float* sum,
                          const std::vector<int64_t>& counts, const std::string& name) const {
  Communicator& group = *axes_[axis];
  const auto rank = static_cast<size_t>(group.rank());
  const int64_t own = counts[rank];
  const int64_t start = std::accumulate(counts.begin(), counts.begin() + group.rank(), int64_t{0});
  const int64_t others = sum_of(counts) - own;
  const int64_t parts = group.size() - 1;
  check(others <= buffer_.rounded && parts * own <= buffer_.received,
        "{} sends and gets {} and {} elements along an axis, more than its buffer has", name,
        others, parts * own);
  round(stream, whole, 0, start);
  round(stream, whole + start + own, start, others - start);
  std::vector<int64_t> sends = counts;
  std::vector<int64_t> receives(counts.size(), own);
  sends[rank] = receives[rank] = 0;
  group.all_to_all(stream, at(0), sends, at(buffer_.rounded), receives, sent_as_,
                   algorithm(axes_.size() - 1 - axis), name);
  if (sum != whole + start && own > 0) {
    stream.copy(sum, whole + start, own * size_of(DType::f32));
  }
  add(stream, sum, parts, own);
}

std::vector<int64_t> RoundedSums::balanced_pieces(int64_t count) const {
  std::vector<int64_t> counts = {count};
  for (size_t a = axes_.size(); a-- > 0;) {
    std::vector<int64_t> pieces;
    for (const int64_t each : counts) {
      const std::vector<int64_t> offsets = balanced_offsets(each, axes_[a]->size());
      for (size_t i = 0; i + 1 < offsets.size(); ++i) {
        pieces.push_back(offsets[i + 1] - offsets[i]);
      }
    }
    counts = std::move(pieces);
  }
  return counts;
}

int64_t RoundedSums::start_of(std::vector<int64_t> counts) const {
  int64_t start = 0;
  for (size_t a = axes_.size(); a-- > 0;) {
    AxisPieces along = pieces_of(*axes_[a], counts);
    start += along.start;
    counts = std::move(along.mine);
  }
  return start;
}

void RoundedSums::round(Stream& stream, const float* from, int64_t to, int64_t count) const {
  with_sixteen_bits(sent_as_, [&](auto zero) {
    using Element = decltype(zero);
    if (count > 0) {
      kernels::convert(stream, from, reinterpret_cast<Element*>(at(to)), count);
    }
  });
}

void RoundedSums::widen(Stream& stream, float* to, int64_t count) const {
  with_sixteen_bits(sent_as_, [&](auto zero) {
    using Element = decltype(zero);
    kernels::convert(stream, reinterpret_cast<const Element*>(at(0)), to, count);
  });
}

void RoundedSums::add(Stream& stream, float* sum, int64_t parts, int64_t count) const {
  with_sixteen_bits(sent_as_, [&](auto zero) {
    using Element = decltype(zero);
    if (count > 0) {
      kernels::add_parts(stream, reinterpret_cast<const Element*>(at(buffer_.rounded)), parts, sum,
                         count);
    }
  });
}

CollectiveAlgorithm RoundedSums::algorithm(size_t part) const {
  return algorithms_.empty() ? CollectiveAlgorithm::automatic : algorithms_.at(part);
}

}  // namespace hidup
