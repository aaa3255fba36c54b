#include "yaml/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/check.h"
#include "core/text.h"

namespace hidup {
namespace {

constexpr size_t kMostShown = 20;  // problems at a time

}  // namespace

size_t Problems::add_source(const std::string& name) {
  sources_.push_back(shown(name));
  return sources_.size() - 1;
}

void Problems::add(const Position& position, const std::string& message) {
  problems_.push_back({position, message});
}

std::string Problems::describe(const Position& position) const {
  const std::string& source = sources_.at(position.source);
  return position.line > 0 ? fmt::format("{}:{}:{}", source, position.line, position.column)
                           : source;
}

void Problems::throw_if_any() const {
  if (problems_.empty()) {
    return;
  }
  std::vector<Problem> sorted = problems_;
  const auto order = [](const Problem& problem) {
    return std::tuple(problem.position.source, problem.position.line, problem.position.column);
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Problem& left, const Problem& right) {
    return order(left) < order(right);
  });
  std::string text;
  const size_t count = std::min(sorted.size(), kMostShown);
  for (size_t i = 0; i < count; ++i) {
    text += i == 0 ? "" : "\n";
    text += describe(sorted[i].position) + ": " + sorted[i].message;
  }
  if (count < sorted.size()) {
    text += fmt::format("\nand {} problem(s) more", sorted.size() - count);
  }
  throw Error(ExitCode::usage, text);
}

}  // namespace hidup
