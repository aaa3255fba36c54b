#include "graph/attributes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/text.h"

namespace hidup {
namespace {

std::string describe(const AttributeRange& range) {
  const std::string zero = range.or_zero ? "0 or " : "";
  if (range.whole && range.most - range.least == 1.0) {
    return fmt::format("{} or {}", range.least, range.most);
  }
  return fmt::format("{}{}from {} to {}", zero, range.whole ? "a whole number " : "", range.least,
                     range.most);
}

void check_value(std::string_view name, double value, const AttributeRange& range) {
  const bool inside = value >= range.least && value <= range.most;
  const bool whole = !range.whole || value == std::floor(value);
  if (!(inside && whole) && !(range.or_zero && value == 0.0)) {
    fail(ExitCode::usage, "expected {} to be {}, found {}", name, describe(range), value);
  }
}

}  // namespace

void set_attribute(OpAttributes& attributes, std::string_view name, double value) {
  bool found = false;
  const auto set = [&](std::string_view known, auto& slot, const AttributeRange& range) {
    if (known == name) {
      check_value(name, value, range);
      slot = static_cast<std::decay_t<decltype(slot)>>(value);
      found = true;
    }
  };
  std::visit([&](auto& held) { std::decay_t<decltype(held)>::each(held, set); }, attributes);
  if (found) {
    return;
  }
  std::vector<std::string> names;
  for_each_attribute(attributes,
                     [&](std::string_view known, double) { names.emplace_back(known); });
  if (names.empty()) {
    fail(ExitCode::usage, "there is no attribute {}, and no other", name);
  }
  const std::string hint = nearest(name, names);
  fail(ExitCode::usage, "there is no attribute {}{}; there are {}", name,
       hint.empty() ? "" : fmt::format(" (did you mean {}?)", hint), fmt::join(names, ", "));
}

void check_attributes(const OpAttributes& attributes) {
  std::visit(
      [](const auto& held) {
        std::decay_t<decltype(held)>::each(
            held, [](std::string_view name, const auto& value, const AttributeRange& range) {
              check_value(name, static_cast<double>(value), range);
            });
      },
      attributes);
}

}  // namespace hidup
