// Options of the command line that are numbers.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>
#include <system_error>
#include <type_traits>

#include "core/text.h"

namespace hidup {

// All of the text is a number between the two. CLI11's own reading takes nan, nothing, 0x2 and
// numbers that are too large, too, and -1 where there is no sign.
template <typename Number>
Number number_of(const std::string& option, const std::string& text, Number least, Number most) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  if (status != std::errc() || stop != end || !(value >= least && value <= most)) {  // nan, too
    throw CLI::ValidationError(
        option, fmt::format("expected {} from {} to {}, found {}",
                            std::is_integral_v<Number> ? "a whole number" : "a number", least, most,
                            text.empty() ? "nothing" : shown(text)));
  }
  return value;
}

// `target`: a Number, which is the default, or an optional one.
template <typename Target, typename Number>
CLI::Option* add_number(CLI::App& command, const std::string& option, Target& target, Number least,
                        Number most, const std::string& doc) {
  CLI::Option* added = command.add_option_function<std::string>(
      option,
      [&target, option, least, most](const std::string& text) {
        target = number_of(option, text, least, most);
      },
      doc);
  if constexpr (std::is_same_v<Target, Number>) {
    added->default_str(fmt::format("{}", target));
  }
  return added->type_name(std::is_integral_v<Number> ? "INT" : "FLOAT");
}

}  // namespace hidup
