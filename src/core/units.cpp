#include "core/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace hidup {
namespace {

struct Suffix {
  Unit unit;
  std::string_view text;
  double factor;
};

constexpr double kKi = 1024.0;
constexpr std::array kSuffixes = {
    Suffix{Unit::bytes, "B", 1.0},
    Suffix{Unit::bytes, "KiB", kKi},
    Suffix{Unit::bytes, "MiB", kKi* kKi},
    Suffix{Unit::bytes, "GiB", kKi* kKi* kKi},
    Suffix{Unit::bytes, "TiB", kKi* kKi* kKi* kKi},
    Suffix{Unit::bytes, "kB", 1e3},
    Suffix{Unit::bytes, "MB", 1e6},
    Suffix{Unit::bytes, "GB", 1e9},
    Suffix{Unit::bytes, "TB", 1e12},
    Suffix{Unit::seconds, "ns", 1e-9},
    Suffix{Unit::seconds, "us", 1e-6},
    Suffix{Unit::seconds, "ms", 1e-3},
    Suffix{Unit::seconds, "s", 1.0},
    Suffix{Unit::seconds, "min", 60.0},
    Suffix{Unit::seconds, "h", 3600.0},
    Suffix{Unit::bandwidth, "kbps", 1e3 / 8},
    Suffix{Unit::bandwidth, "Mbps", 1e6 / 8},
    Suffix{Unit::bandwidth, "Gbps", 1e9 / 8},
    Suffix{Unit::bandwidth, "Tbps", 1e12 / 8},
    Suffix{Unit::bandwidth, "MB/s", 1e6},
    Suffix{Unit::bandwidth, "GB/s", 1e9},
    Suffix{Unit::bandwidth, "TB/s", 1e12},
    Suffix{Unit::bandwidth, "MiB/s", kKi* kKi},
    Suffix{Unit::bandwidth, "GiB/s", kKi* kKi* kKi},
    Suffix{Unit::flops, "MFLOPS", 1e6},
    Suffix{Unit::flops, "GFLOPS", 1e9},
    Suffix{Unit::flops, "TFLOPS", 1e12},
    Suffix{Unit::flops, "PFLOPS", 1e15},
};

}  // namespace

Nanoseconds nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

double to_seconds(Nanoseconds time) {
  return 1e-9 * static_cast<double>(time);
}

std::string_view describe(Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return "an amount of memory such as 32GiB";
    case Unit::seconds:
      return "a time such as 30us";
    case Unit::bandwidth:
      return "a bandwidth such as 9.71Gbps or 1.2GB/s";
    case Unit::flops:
      return "a rate such as 15.7TFLOPS";
    case Unit::none:
      break;
  }
  return "a number";
}

std::optional<double> parse_quantity(std::string_view text, Unit unit) {
  double number = 0.0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0.0) {
    return std::nullopt;
  }
  std::string_view suffix(rest, text.data() + text.size() - rest);
  suffix.remove_prefix(std::min(suffix.find_first_not_of(' '), suffix.size()));
  if (suffix.empty()) {
    return number == 0.0 || unit == Unit::none ? std::optional(number) : std::nullopt;
  }
  for (const Suffix& known : kSuffixes) {
    if (known.unit == unit && known.text == suffix) {
      return number * known.factor;
    }
  }
  return std::nullopt;
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array names = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t index = 0;
  while (value >= kKi && index + 1 < names.size()) {
    value /= kKi;
    ++index;
  }
  return index == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, names[index]);
}

std::string format_seconds(double seconds) {
  if (seconds >= 1.0) {
    return fmt::format("{:.2f} s", seconds);
  }
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                         : fmt::format("{:.1f} us", seconds * 1e6);
}

std::string format_duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) {
    return fmt::format("{} s", whole);
  }
  if (whole < 3600) {
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  const int64_t first = count < 0 ? 1 : 0;
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

}  // namespace hidup
