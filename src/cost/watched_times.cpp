#include "cost/watched_times.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <variant>

#include "core/check.h"
#include "core/median.h"
#include "core/text.h"
#include "cost/duration.h"
#include "program/work.h"

namespace hidup {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool sends(const Instruction& instruction) {
  return !collective_of(instruction.opcode).empty() && communicates(instruction.stream);
}

// Returns true where the number of rows that experts get decides how long it takes.
bool has_packed_rows(const Program& program, const Instruction& instruction) {
  return std::ranges::any_of(instruction.inputs,
                             [&](ValueId id) { return program.value(id).packed.has_value(); });
}

// Returns true for operations on tokens that experts get: they read integers that the step makes.
bool depends_on_data(const Program& program, const Instruction& instruction) {
  return has_packed_rows(program, instruction) ||
         std::ranges::any_of(instruction.inputs, [&](ValueId id) {
           const Value& value = program.value(id);
           return value.dtype == DType::i32 && value.role == Value::Role::activation;
         });
}

OperationClass class_of(const Instruction& instruction) {
  return std::holds_alternative<AttentionAttributes>(instruction.attributes)
             ? OperationClass::attention
         : is_product(instruction.opcode) ? OperationClass::products
                                          : OperationClass::memory;
}

std::string axes_of(const Mesh& mesh, const Instruction& instruction) {
  std::vector<std::string> names;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (works_along(instruction, axis)) {
      names.push_back(mesh[axis].name);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns everything that the length of the messages depends on.
std::string kind_of(const Program& program, const Instruction& instruction) {
  std::string text =
      fmt::format("{} {} {} {} {}", name_of(instruction.opcode), instruction.axis,
                  fmt::join(instruction.inner_axes, ","), fmt::join(instruction.group, ","),
                  names_of(instruction.algorithms));
  for (const ValueId id : instruction.inputs) {
    const Value& value = program.value(id);
    const std::vector<ValueId> held = value.holds.empty() ? std::vector<ValueId>{id} : value.holds;
    for (const ValueId part : held) {
      text += fmt::format(" {}",
                          size_of(program.value(part).dtype) * elements(program.value(part).shape));
    }
  }
  return text;
}

}  // namespace

MessageKinds message_kinds(const Program& program) {
  MessageKinds kinds;
  std::map<std::string, int> known;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (!sends(instruction) || has_packed_rows(program, instruction)) {
      kinds.number.push_back(MessageKinds::kNone);
      continue;
    }
    const auto [found, is_new] =
        known.try_emplace(kind_of(program, instruction), static_cast<int>(kinds.first.size()));
    if (is_new) {
      kinds.first.push_back(static_cast<int>(i));
      kinds.count.push_back(0);
    }
    kinds.number.push_back(found->second);
    ++kinds.count[static_cast<size_t>(found->second)];
  }
  return kinds;
}

WatchedTimes::WatchedTimes(const Program& program, int64_t rank)
    : program_(program),
      rank_(rank),
      steps_(program, rank),
      kinds_(message_kinds(program)),
      classes_s_(kOperationClasses),
      least_s_(kinds_.first.size(), kNan) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const bool counts = steps_.runs(i) && instruction.stream == StreamKind::compute &&
                        !depends_on_data(program, instruction);
    classes_.push_back(counts ? std::optional(class_of(instruction)) : std::nullopt);
  }
}

std::vector<double> WatchedTimes::expected(const CostModel* costs) const {
  constexpr double kFlopsPerByte = 16.0;
  std::vector<double> all(kOperationClasses, 0.0);
  const AlikeInstructions alike = alike_instructions(program_, rank_);
  std::vector<double> times;
  for (const int first : alike.first) {
    const Instruction& instruction = program_.instructions[static_cast<size_t>(first)];
    if (costs != nullptr) {
      times.push_back(duration_of(program_, *costs, instruction, rank_).alone_s);
    } else {
      const Work work = work_of(program_, instruction, rank_);
      times.push_back(is_product(instruction.opcode) ? work.flops : kFlopsPerByte * work.bytes);
    }
  }
  for (size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i]) {
      all[static_cast<size_t>(*classes_[i])] += times[static_cast<size_t>(alike.number[i])];
    }
  }
  return all;
}

uint64_t WatchedTimes::instructions() const {
  std::string runs;
  for (const auto& operations : classes_) {
    runs += operations ? '1' : '0';
  }
  return hash_of(runs);
}

void WatchedTimes::add(std::span<const Interval> times) {
  check(times.size() == classes_.size(), "times of {} instructions, expected {}", times.size(),
        classes_.size());
  std::vector<double> classes(kOperationClasses, 0.0);
  double first = std::numeric_limits<double>::infinity();
  double last = -first;
  for (size_t i = 0; i < times.size(); ++i) {
    const double length = times[i].end_s - times[i].start_s;
    first = std::min(first, times[i].start_s);
    last = std::max(last, times[i].end_s);
    if (classes_[i]) {
      classes[static_cast<size_t>(*classes_[i])] += length;
    }
    if (kinds_.number[i] != MessageKinds::kNone && steps_.runs(i)) {
      double& least = least_s_[static_cast<size_t>(kinds_.number[i])];
      least = std::isnan(least) ? length : std::min(least, length);
    }
  }
  spans_.push_back(last - first);
  for (size_t i = 0; i < classes.size(); ++i) {
    classes_s_[i].push_back(classes[i]);
  }
}

RankDigest WatchedTimes::take() {
  RankDigest digest{.span_s = median(std::exchange(spans_, {}))};
  for (std::vector<double>& steps : classes_s_) {
    digest.classes_s.push_back(median(std::exchange(steps, {})));
  }
  digest.least_s = std::exchange(least_s_, std::vector(least_s_.size(), kNan));
  return digest;
}

WatchedParts::WatchedParts(const Program& program, const std::vector<WatchedRank>& ranks) {
  std::map<std::pair<int64_t, uint64_t>, int64_t> known;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto [found, is_new] =
        known.try_emplace({ranks[rank].device, ranks[rank].instructions}, std::ssize(known));
    parts_.push_back({.ranks = {static_cast<int64_t>(rank)},
                      .like = found->second,
                      .expected = ranks[rank].expected});
  }
  messages_.resize(parts_.size());
  add_groups(program);
}

// Groups along the same axes with messages of the same kinds are alike.
void WatchedParts::add_groups(const Program& program) {
  const MessageKinds kinds = message_kinds(program);
  std::map<std::pair<std::string, std::vector<int64_t>>, size_t> known;
  const int64_t ranks = ranks_of(program.mesh);
  for (size_t kind = 0; kind < kinds.first.size(); ++kind) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(kinds.first[kind])];
    const std::string axes = axes_of(program.mesh, instruction);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      if (skips(program, instruction, rank)) {
        continue;
      }
      std::vector<int64_t> group = collective_group(program, instruction, rank);
      std::ranges::sort(group);
      if (group.size() < 2 || group.front() != rank) {
        continue;
      }
      const auto [found, is_new] = known.try_emplace({axes, group}, parts_.size());
      if (is_new) {
        parts_.push_back({.ranks = group, .axes = axes, .expected = {1.0}});
        messages_.emplace_back();
      }
      messages_[found->second].push_back(
          {.kind = static_cast<int>(kind), .count = kinds.count[kind]});
    }
  }
  std::map<std::string, int64_t> likes;
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (!parts_[part].computes()) {
      std::string text = fmt::format("{} {}", parts_[part].axes, parts_[part].ranks.size());
      for (const Messages& messages : messages_[part]) {
        text += fmt::format(" {}", messages.kind);
      }
      // Groups with other parts send other bytes.
      text += has_unequal_parts(program) ? fmt::format(" part {}", part) : "";
      parts_[part].like = likes.try_emplace(text, std::ssize(likes)).first->second;
    }
  }
}

WatchedBlock WatchedParts::block(int64_t first, int64_t last,
                                 const std::vector<RankDigest>& digests) const {
  WatchedBlock block{.first = first, .last = last};
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (parts_[part].computes()) {
      const RankDigest& digest = digests.at(part);
      block.step_s = std::max(block.step_s, digest.span_s);
      block.times.push_back(digest.classes_s);
      continue;
    }
    double all = 0.0;
    for (const Messages& messages : messages_[part]) {
      double least = kNan;
      for (const int64_t rank : parts_[part].ranks) {
        const double mine =
            digests.at(static_cast<size_t>(rank)).least_s.at(static_cast<size_t>(messages.kind));
        least = std::isnan(least) ? mine : std::min(least, std::isnan(mine) ? least : mine);
      }
      all += messages.count * least;
    }
    block.times.push_back({all});
  }
  return block;
}

}  // namespace hidup
