#include "program/occupied.h"

#include <algorithm>
#include <limits>

#include "core/deadline.h"

namespace hidup {
namespace {

// Calls visit with the nodes that together cover the moments [begin, end).
template <typename Visit>
void for_nodes(size_t moments, size_t begin, size_t end, Visit visit) {
  for (begin += moments, end += moments; begin < end; begin /= 2, end /= 2) {
    if (begin % 2 == 1) {
      visit(begin++);
    }
    if (end % 2 == 1) {
      visit(--end);
    }
  }
}

// Calls visit with all nodes that contain the moment.
template <typename Visit>
void for_nodes_above(size_t moments, size_t moment, Visit visit) {
  for (size_t node = moment + moments; node > 0; node /= 2) {
    visit(node);
  }
}

}  // namespace

void ByteRanges::add(int64_t begin, int64_t end) {
  if (begin >= end) {
    return;
  }
  // Ranges that overlap or touch are merged.
  const auto first = std::ranges::lower_bound(ranges_, begin, {}, &Range::end);
  auto last = first;
  for (; last != ranges_.end() && last->begin <= end; ++last) {
    begin = std::min(begin, last->begin);
    end = std::max(end, last->end);
  }
  if (first == last) {
    ranges_.insert(first, {begin, end});
  } else {
    *first = {begin, end};
    ranges_.erase(first + 1, last);
  }
}

ByteRanges::Gap ByteRanges::gap_from(int64_t at, int64_t bytes) const {
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  if (ranges_.empty() || ranges_.back().end <= at) {
    return {at, kEnd};
  }
  auto range = std::ranges::upper_bound(ranges_, at, {}, &Range::end);
  for (; range != ranges_.end() && range->begin < at + bytes; ++range) {
    at = range->end;
  }
  return {at, range == ranges_.end() ? kEnd : range->begin};
}

void OccupiedBytes::add_during(size_t begin, size_t end, int64_t first_byte, int64_t end_byte) {
  for_nodes(moments_, begin, end, [&](size_t node) { nodes_[node].add(first_byte, end_byte); });
}

void OccupiedBytes::append_at(size_t moment, std::vector<InTheWay>& ranges) const {
  for_nodes_above(moments_, moment, [&](size_t node) {
    if (!nodes_[node].empty()) {
      ranges.push_back({&nodes_[node]});
    }
  });
}

void OccupiedBytes::add_at(size_t moment, int64_t first_byte, int64_t end_byte) {
  for_nodes_above(moments_, moment, [&](size_t node) { nodes_[node].add(first_byte, end_byte); });
}

void OccupiedBytes::append_during(size_t begin, size_t end, std::vector<InTheWay>& ranges) const {
  for_nodes(moments_, begin, end, [&](size_t node) {
    if (!nodes_[node].empty()) {
      ranges.push_back({&nodes_[node]});
    }
  });
}

int64_t free_of_all(std::vector<InTheWay>& ranges, int64_t at, int64_t bytes) {
  // Every range in the way moves the place on, until none is.
  for (bool moved = true; moved;) {
    TimeLimit::check();
    moved = false;
    for (InTheWay& each : ranges) {
      if (each.gap_end < at + bytes) {
        const ByteRanges::Gap gap = each.ranges->gap_from(at, bytes);
        moved |= gap.begin > at;
        at = gap.begin;
        each.gap_end = gap.end;
      }
    }
  }
  return at;
}

}  // namespace hidup
