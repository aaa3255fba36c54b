#include "train/stragglers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "core/log.h"
#include "core/text.h"

namespace hidup {
namespace {

std::string hosts_of(const WatchedPart& part, const std::vector<std::string>& hosts) {
  constexpr size_t kMost = 4;
  std::vector<std::string> found;
  for (const int64_t rank : part.ranks) {
    const std::string& host = hosts.at(static_cast<size_t>(rank));
    if (std::ranges::find(found, host) == found.end()) {
      found.push_back(host);
    }
  }
  return found.size() > kMost ? fmt::format("{} hosts", found.size())
                              : fmt::format("{}", fmt::join(found, ", "));
}

std::string name_of(const WatchedPart& part, const std::vector<std::string>& hosts) {
  const std::vector<int> ranks(part.ranks.begin(), part.ranks.end());
  const std::string numbers = fmt::format("{} ({})", format_numbers(ranks), hosts_of(part, hosts));
  return part.computes() ? "the computation of rank " + numbers
                         : fmt::format("messages along {} between ranks {}", part.axes, numbers);
}

std::string percent(double part) {
  return fmt::format("{:.0f} %", 100.0 * part);
}

// The digest as numbers, whose count is the same on all ranks.
std::vector<double> numbers_of(const RankDigest& digest) {
  std::vector<double> numbers = {digest.span_s};
  numbers.insert(numbers.end(), digest.classes_s.begin(), digest.classes_s.end());
  numbers.insert(numbers.end(), digest.least_s.begin(), digest.least_s.end());
  return numbers;
}

RankDigest digest_of(const std::vector<double>& numbers) {
  const auto classes = numbers.begin() + 1;
  const auto least = classes + kOperationClasses;
  return {
      .span_s = numbers.front(), .classes_s = {classes, least}, .least_s = {least, numbers.end()}};
}

template <typename T>
std::vector<std::vector<T>> gather_all(Communicator& world, const std::vector<T>& mine) {
  std::vector<std::vector<T>> all;
  for (const std::vector<std::byte>& bytes : world.gather(std::as_bytes(std::span(mine)))) {
    std::vector<T>& values = all.emplace_back(bytes.size() / sizeof(T));
    std::ranges::copy(bytes, std::as_writable_bytes(std::span(values)).begin());
  }
  return all;
}

}  // namespace

std::string describe(const SlowNews& news, const std::vector<WatchedPart>& parts,
                     const std::vector<std::string>& hosts) {
  const WatchedPart& part = parts.at(news.part);
  const std::string name = name_of(part, hosts);
  if (!part.computes()) {
    return news.over ? fmt::format("{} take their usual time again since step {}", name, news.since)
                     : fmt::format(
                           "{} take {} longer since step {}, which is not due to a slow "
                           "computation: the link is slow",
                           name, percent(news.slower_by), news.since);
  }
  const bool alone = std::ranges::count_if(parts, [&](const WatchedPart& other) {
                       return other.computes() && other.like == part.like;
                     }) == 1;
  const std::string_view others = alone ? "before" : "that of its class";
  if (news.over) {
    return fmt::format("{} takes as long as {} again since step {}", name, others, news.since);
  }
  return fmt::format(
      "{} takes {} longer than {} since step {}, mostly in {} ({} longer): the "
      "rank is slow, not its link",
      name, percent(news.slower_by), others, news.since, hidup::name_of(news.operations),
      percent(news.operations_slower_by));
}

std::vector<std::string> straggler_causes() {
  std::vector<std::string> causes;
  for (size_t i = 0; i < kOperationClasses; ++i) {
    causes.emplace_back(name_of(static_cast<OperationClass>(i)));
  }
  causes.emplace_back("messages");
  return causes;
}

std::vector<StragglerRow> straggler_rows(const SlowNews& news, const WatchedPart& part,
                                         int64_t step) {
  std::vector<StragglerRow> rows;
  for (const int64_t rank : part.ranks) {
    rows.push_back({.step = step,
                    .since = news.since,
                    .rank = rank,
                    .cause = part.computes() ? static_cast<int64_t>(news.operations)
                                             : static_cast<int64_t>(kOperationClasses),
                    .slower_by = news.slower_by,
                    .over = news.over});
  }
  return rows;
}

Stragglers::Stragglers(Communicator& world, WatchedCluster cluster, TimingFile* timings,
                       Heard heard)
    : world_(world), cluster_(std::move(cluster)), timings_(timings), heard_(std::move(heard)) {}

void Stragglers::watch(const Program& program) {
  mine_.emplace(program, world_.rank());
  seen_ = 0;
  const CostModel* costs = cluster_.costs == nullptr ? nullptr : &cluster_.costs->of(world_.rank());
  const std::vector<uint64_t> instructions = all_gather_value(world_, mine_->instructions());
  const std::vector<std::vector<double>> expected = gather_all(world_, mine_->expected(costs));
  if (world_.rank() != 0) {
    return;
  }
  std::vector<WatchedRank> ranks;
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    ranks.push_back({.expected = expected[rank],
                     .instructions = instructions[rank],
                     .device = cluster_.devices.at(rank)});
  }
  parts_.emplace(program, ranks);
  if (watch_) {
    watch_->go_on_with(parts_->parts());
  } else {
    watch_.emplace(parts_->parts());
  }
}

void Stragglers::add(int64_t step, std::span<const Interval> times) {
  if (++seen_ <= kFirstSteps) {
    first_ = step + 1;
    return;
  }
  mine_->add(times);
  if (step - first_ + 1 >= SlowRanks::kBlockSteps) {
    end_block(step);
    first_ = step + 1;
  }
}

void Stragglers::end_block(int64_t step) {
  const std::vector<std::vector<double>> all = gather_all(world_, numbers_of(mine_->take()));
  if (world_.rank() != 0) {
    return;
  }
  std::vector<RankDigest> digests;
  digests.reserve(all.size());
  for (const std::vector<double>& numbers : all) {
    digests.push_back(digest_of(numbers));
  }
  for (const SlowNews& news : watch_->add(parts_->block(first_, step, digests))) {
    const std::string line = describe(news, watch_->parts(), cluster_.hosts);
    if (news.over) {
      log::info("{}", line);
    } else {
      log::warning("{}", line);
    }
    if (timings_ != nullptr) {
      timings_->append_stragglers(straggler_rows(news, watch_->parts()[news.part], step));
    }
    if (heard_) {
      heard_(news, watch_->parts()[news.part]);
    }
  }
}

}  // namespace hidup
