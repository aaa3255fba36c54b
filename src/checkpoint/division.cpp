#include "checkpoint/division.h"

#include <algorithm>
#include <map>

#include "checkpoint/crc32c.h"
#include "core/check.h"

namespace hidup {
namespace {

// A single rank writes a smaller box of several ranks.
constexpr int64_t kWholeBytes = 4 * kBlockBytes;

void check_box(const StoredTensor& tensor, const Region& box) {
  bool right = box.dims == static_cast<int>(tensor.shape.size());
  for (int d = 0; right && d < box.dims; ++d) {
    right = box.global[d] == tensor.shape[static_cast<size_t>(d)] && box.start[d] >= 0 &&
            box.extent[d] >= 0 && box.start[d] + box.extent[d] <= box.global[d];
  }
  check(right, "a rank's box of {} does not lie in {}", tensor.name, to_string(tensor.shape));
}

// The ranks that hold each box of a tensor that is not empty.
using Holders = std::map<std::vector<int64_t>, std::vector<size_t>>;

Holders holders_of(const StoredTensor& tensor, size_t index,
                   const std::vector<std::vector<Region>>& boxes) {
  Holders holders;
  int64_t held = 0;
  for (size_t rank = 0; rank < boxes.size(); ++rank) {
    const Region& box = boxes[rank][index];
    check_box(tensor, box);
    std::vector<int64_t> key(box.start, box.start + box.dims);
    key.insert(key.end(), box.extent, box.extent + box.dims);
    if (box.elements() > 0) {
      std::vector<size_t>& ranks = holders[key];
      held += ranks.empty() ? box.elements() : 0;
      ranks.push_back(rank);
    }
  }
  check(held == elements(tensor.shape), "the ranks' boxes of {} have {} elements instead of {}",
        tensor.name, held, elements(tensor.shape));
  return holders;
}

}  // namespace

std::vector<Share> divide(const std::vector<StoredTensor>& tensors,
                          const std::vector<std::vector<Region>>& boxes) {
  std::vector<Share> shares(boxes.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t size = size_of(tensors[i].dtype);
    const auto give = [&](size_t rank, int64_t first, int64_t count) {
      Share& share = shares[rank];
      if (count > 0) {
        share.parts.push_back({i, first, count, share.bytes});
        const int64_t end = share.bytes + count * size;
        share.bytes = (end + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
      }
    };
    for (const auto& [key, ranks] : holders_of(tensors[i], i, boxes)) {
      const int64_t count = boxes[ranks[0]][i].elements();
      if (count * size < kWholeBytes) {
        give(*std::ranges::min_element(ranks, {}, [&](size_t r) { return shares[r].bytes; }), 0,
             count);
        continue;
      }
      const int64_t grain = kBlockBytes / size;
      const auto parts = static_cast<int64_t>(ranks.size());
      const auto cut = [&](int64_t part) {
        return part == parts ? count : count / grain * part / parts * grain;
      };
      for (int64_t part = 0; part < parts; ++part) {
        give(ranks[static_cast<size_t>(part)], cut(part), cut(part + 1) - cut(part));
      }
    }
  }
  return shares;
}

}  // namespace hidup
