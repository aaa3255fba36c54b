#include "program/signature.h"

#include <algorithm>

#include "core/check.h"

namespace hidup {
namespace {

// Removes and returns the text before the first of `separators`; removes the separator too.
std::string_view take_until(std::string_view& text, std::string_view separators) {
  const size_t end = std::min(text.find_first_of(separators), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

Operand parse_operand(std::string_view text) {
  Operand operand;
  operand.name = take_until(text, ":");
  check(!operand.name.empty() && !text.empty(), "an operand without a name or type");
  operand.type = text[0];
  text.remove_prefix(1);
  const auto take_mark = [&](char mark) {
    const bool found = text.starts_with(mark);
    text.remove_prefix(found ? 1 : 0);
    return found;
  };
  operand.sum = take_mark('+');
  operand.padded = take_mark('~');
  if (!text.empty()) {
    check(take_until(text, "=").empty(), "what stands behind a type is +, ~ or =");
    while (!text.empty()) {
      operand.over.push_back(take_until(text, ","));
    }
  }
  return operand;
}

}  // namespace

OperandList::OperandList(std::string_view text) : text_(text) {
  const size_t group_end = text.find(")*");
  if (text.starts_with('(')) {
    std::string_view group = text.substr(1, group_end - 1);
    while (!group.empty()) {
      list_.push_back(parse_operand(take_until(group, " ")));
    }
    repeated_ = list_.size();
    text.remove_prefix(std::min(group_end + 3, text.size()));
  }
  while (!text.empty()) {
    list_.push_back(parse_operand(take_until(text, " ")));
  }
}

bool OperandList::takes(size_t count) const {
  if (repeated_ == 0) {
    return count == list_.size();
  }
  const size_t fixed = list_.size() - repeated_;
  return count > fixed && (count - fixed) % repeated_ == 0;
}

int OperandList::repetition(size_t i, size_t count) const {
  const size_t fixed = list_.size() - repeated_;
  return i + fixed < count ? static_cast<int>(i / repeated_) : -1;
}

const Operand& OperandList::at(size_t i, size_t count) const {
  const size_t fixed = list_.size() - repeated_;
  return i + fixed < count ? list_.at(i % std::max<size_t>(repeated_, 1))
                           : list_.at(repeated_ + i + fixed - count);
}

int OperandList::find(std::string_view name) const {
  const auto found = std::ranges::find(list_, name, &Operand::name);
  return found == list_.end() ? -1 : static_cast<int>(found - list_.begin());
}

Signature::Signature(std::string_view text) {
  constexpr std::string_view kArrow = " -> ";
  const size_t arrow = text.find(kArrow);
  check(arrow != std::string_view::npos, "a signature without ->: {}", text);
  inputs = OperandList(text.substr(0, arrow));
  outputs = OperandList(text.substr(arrow + kArrow.size()));
}

}  // namespace hidup
