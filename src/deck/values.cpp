#include "deck/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <type_traits>

#include "core/check.h"
#include "core/text.h"
#include "deck/cluster_deck.h"
#include "deck/data_deck.h"

namespace hidup {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

constexpr double kTwoTo63 = 0x1p63;
constexpr std::string_view kPerRank = " x ranks";

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

bool is_integer(const Slot& slot) {
  return std::holds_alternative<int64_t*>(slot) || std::holds_alternative<uint64_t*>(slot) ||
         std::holds_alternative<std::optional<int64_t>*>(slot);
}

bool takes_none(const Slot& slot) {
  return std::holds_alternative<std::optional<int64_t>*>(slot) ||
         std::holds_alternative<std::optional<double>*>(slot);
}

// Returns the word for an optional without a value.
std::string word_for_none(const Key& key) {
  return key.choices.empty() ? "auto" : key.choices.front();
}

// Returns the suffixes that values of a unit are written with, larger ones first.
std::span<const std::string_view> suffixes_of(Unit unit) {
  static constexpr std::array<std::string_view, 9> kBytes = {"TiB", "GiB", "MiB", "KiB", "TB",
                                                             "GB",  "MB",  "kB",  "B"};
  static constexpr std::array<std::string_view, 6> kSeconds = {"h", "min", "s", "ms", "us", "ns"};
  static constexpr std::array<std::string_view, 9> kBandwidth = {
      "TB/s", "GB/s", "MB/s", "Tbps", "Gbps", "Mbps", "kbps", "GiB/s", "MiB/s"};
  static constexpr std::array<std::string_view, 4> kFlops = {"PFLOPS", "TFLOPS", "GFLOPS",
                                                             "MFLOPS"};
  switch (unit) {
    case Unit::bytes:
      return kBytes;
    case Unit::seconds:
      return kSeconds;
    case Unit::bandwidth:
      return kBandwidth;
    case Unit::flops:
      return kFlops;
    case Unit::none:
      break;
  }
  return {};
}

// Returns the shortest text that parses to exactly this value. Neighbours are tried, too, because
// dividing by the suffix's factor may be off by a rounding.
std::string format_quantity(double value, Unit unit) {
  std::string best;
  for (const std::string_view suffix : suffixes_of(unit)) {
    const double factor = parse_quantity(fmt::format("1{}", suffix), unit).value();
    const double number = value / factor;
    for (const double near :
         {number, std::nextafter(number, 0.0), std::nextafter(number, HUGE_VAL)}) {
      const std::string text = fmt::format("{}{}", near, suffix);
      if (parse_quantity(text, unit) == value && (best.empty() || text.size() < best.size())) {
        best = text;
      }
    }
  }
  check(!best.empty(), "{} has no text in its unit", value);
  return best;
}

std::string format_number(double value, const Key& key, bool integer) {
  if (key.unit != Unit::none) {
    return value == 0.0 ? "0" : format_quantity(value, key.unit);
  }
  return integer ? fmt::format("{}", static_cast<int64_t>(value)) : fmt::format("{}", value);
}

// Returns such as "from 1 to 64", "above 0 and at most 1", "at least 0", "0 or from 1 to 2".
std::string describe_range(const Key& key, bool integer) {
  const Range& range = key.range;
  const std::string zero = range.or_zero ? "0 or " : "";
  const std::string min = format_number(range.min, key, integer);
  if (std::isinf(range.max)) {
    return zero + (range.above_min ? "above " : "at least ") + min;
  }
  const std::string max = format_number(range.max, key, integer);
  const std::string_view below = range.below_max ? "below " : "";
  return zero + (range.above_min ? fmt::format("above {} and {}{}", min,
                                               below.empty() ? "at most " : below, max)
                                 : fmt::format("from {} to {}{}", min, below, max));
}

[[noreturn]] void refuse(const Key& key, const YamlNode& node, std::string_view hint = "") {
  fail(ExitCode::usage, "expected {}, found {}{}", allowed_values(key), describe(node), hint);
}

// Reads the whole `text` as a number of this type.
template <typename Number>
std::pair<Number, std::errc> parse_whole(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end != text.data() + text.size()) {
    return {number, std::errc::invalid_argument};
  }
  return {number, error};
}

template <typename Number>
Number read_integer(const Key& key, const YamlNode& node) {
  const auto [number, error] = parse_whole<Number>(node.text);
  if (error == std::errc::result_out_of_range) {
    refuse(key, node, ", which does not fit into 64 bits");
  }
  if (error != std::errc()) {
    const auto [real, real_error] = parse_whole<double>(node.text);
    const bool whole = real_error == std::errc() && real == std::rint(real) &&
                       std::abs(real) < 1e15 && in_range(real, key.range);
    refuse(key, node, whole ? fmt::format(": write {}", static_cast<int64_t>(real)) : "");
  }
  const bool leading_zero = node.text.size() > 1 && node.text.starts_with('0');
  if (leading_zero) {  // octal in YAML 1.1, decimal in YAML 1.2
    refuse(key, node, fmt::format(": write {}", number));
  }
  if (!in_range(static_cast<double>(number), key.range)) {
    refuse(key, node);
  }
  return number;
}

double read_real(const Key& key, const YamlNode& node) {
  const auto [number, error] = parse_whole<double>(node.text);
  if (error == std::errc::result_out_of_range) {
    refuse(key, node, ", which a double cannot hold");
  }
  if (error != std::errc() || !std::isfinite(number) || !in_range(number, key.range)) {
    refuse(key, node);
  }
  return number;
}

double read_quantity(const Key& key, const YamlNode& node) {
  const auto quantity = parse_quantity(node.text, key.unit);
  if (!quantity) {
    const bool bare = parse_whole<double>(node.text).second == std::errc();
    refuse(key, node, bare ? ", which has no unit" : "");
  }
  if (!std::isfinite(*quantity) || !in_range(*quantity, key.range)) {
    refuse(key, node);
  }
  return *quantity;
}

template <typename Number>
Number read_number(const Key& key, const YamlNode& node) {
  if (key.unit != Unit::none) {
    const double quantity = read_quantity(key, node);
    if constexpr (std::is_integral_v<Number>) {
      check(quantity < kTwoTo63, "the range of {} exceeds 64 bits", key.name);
    }
    return static_cast<Number>(quantity);  // drops the fraction of a byte
  }
  if (node.quoted) {
    refuse(key, node, ": a number has no quotes");
  }
  if constexpr (std::is_integral_v<Number>) {
    return read_integer<Number>(key, node);
  } else {
    return read_real(key, node);
  }
}

std::string read_string(const Key& key, const YamlNode& node) {
  const std::string& text = node.text;
  if (key.choices.empty() || !key.path_of.empty()) {
    // yaml-cpp extends a quote that is never closed to the end of the deck and adds a blank.
    if (text.empty() || text.front() == ' ' || text.back() == ' ') {
      refuse(key, node, ", which is empty or has a blank at its ends: is a quote missing?");
    }
    if (std::any_of(text.begin(), text.end(), is_control)) {
      refuse(key, node, ", which has a line break or another control character");
    }
    return text;
  }
  for (const std::string& choice : key.choices) {
    if (choice == text) {
      return text;
    }
  }
  const std::string close = nearest(text, key.choices);
  refuse(key, node, close.empty() ? "" : fmt::format(": did you mean {}?", close));
}

std::string format_list(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted(texts.size());
  std::transform(texts.begin(), texts.end(), quoted.begin(), yaml_quoted);
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

}  // namespace

bool in_range(double value, const Range& range) {
  if (range.or_zero && value == 0.0) {
    return true;
  }
  const bool above = range.above_min ? value > range.min : value >= range.min;
  const bool below = range.below_max ? value < range.max : value <= range.max;
  return above && below;
}

std::string allowed_values(const Key& key) {
  Deck deck;
  deck.cluster->mesh.resize(1);
  deck.cluster->mesh.front().bandwidth_trace.resize(1);
  deck.cluster->devices.resize(1);
  deck.cluster->devices.front().pace_trace.resize(1);
  deck.cluster->efficiency.resize(1);
  const Slot slot = key.slot(deck, {});
  if (std::holds_alternative<std::vector<MeshAxis>*>(slot)) {
    return "a list of axes";
  }
  if (std::holds_alternative<std::vector<DeviceClass>*>(slot)) {
    return "a list of devices";
  }
  if (std::holds_alternative<std::vector<ProductEfficiency>*>(slot)) {
    return "a list of shares, such as [{share: 0.8}]";
  }
  if (std::holds_alternative<std::vector<TracePhase>*>(slot)) {
    return "a list of times with bandwidths or paces";
  }
  if (std::holds_alternative<std::vector<std::string>*>(slot)) {
    return "a file, a glob or a list of them";
  }
  if (std::holds_alternative<std::optional<Patterns>*>(slot)) {
    return fmt::format("{}, a pattern of names or a list of them", word_for_none(key));
  }
  if (std::holds_alternative<ValidationData*>(slot)) {
    return fmt::format("{}, a number {}, or a file, a glob or a list of them", word_for_none(key),
                       describe_range(key, false));
  }
  if (!key.path_of.empty()) {
    return fmt::format("a {}, {}{}", key.path_of, key.choices.size() == 1 ? "or " : "",
                       fmt::join(key.choices, " or "));
  }
  if (std::holds_alternative<std::string*>(slot)) {
    return key.choices.empty()       ? "a word"
           : key.choices.size() == 1 ? key.choices.front()
                                     : fmt::format("one of {}", fmt::join(key.choices, ", "));
  }
  const bool integer = is_integer(slot);
  const std::string range = describe_range(key, integer);
  const std::string_view separator =
      key.unit == Unit::none && !std::isinf(key.range.max) && !key.range.or_zero ? " " : ", ";
  const std::string_view type =
      key.unit != Unit::none ? describe(key.unit) : (integer ? "an integer" : "a number");
  return fmt::format("{}{}{}{}{}", type, separator, range,
                     takes_none(slot) ? ", or " + word_for_none(key) : "",
                     key.per_rank ? fmt::format(", or such as 2{}", kPerRank) : "");
}

std::string describe(const YamlNode& node) {
  constexpr size_t kLongest = 40;
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "keys with values";
    case YamlNode::Kind::scalar:
    case YamlNode::Kind::refused:
      break;
  }
  const std::string text = shown(node.text, kLongest);
  return node.quoted ? fmt::format("\"{}\"", text) : text;
}

bool is_number(const YamlNode& node) {
  return node.kind == YamlNode::Kind::scalar && !node.quoted &&
         parse_whole<double>(node.text).second != std::errc::invalid_argument;
}

YamlNode without_ranks(const Key& key, const YamlNode& node) {
  YamlNode number = node;
  if (key.per_rank && !node.quoted && node.text.ends_with(kPerRank)) {
    number.text.resize(node.text.size() - kPerRank.size());
  }
  return number;
}

void read_scalar(const Key& key, const YamlNode& node, const Slot& slot) {
  if (node.kind != YamlNode::Kind::scalar) {
    refuse(key, node);
  }
  const bool is_none = node.text == word_for_none(key);
  std::visit(Overloaded{
                 [&](int64_t* value) { *value = read_number<int64_t>(key, node); },
                 [&](uint64_t* value) { *value = read_number<uint64_t>(key, node); },
                 [&](double* value) { *value = read_number<double>(key, node); },
                 [&](std::optional<int64_t>* value) {
                   *value = is_none ? std::nullopt : std::optional(read_number<int64_t>(key, node));
                 },
                 [&](std::optional<double>* value) {
                   *value = is_none ? std::nullopt : std::optional(read_number<double>(key, node));
                 },
                 [&](std::string* value) { *value = read_string(key, node); },
                 [&](auto*) { check(false, "{} is a list, not a scalar", key.name); },
             },
             slot);
}

std::string format_value(const Key& key, const Slot& slot) {
  const auto number = [&](auto value) {
    return key.unit != Unit::none ? format_number(static_cast<double>(value), key, true)
                                  : fmt::format("{}", value);
  };
  const std::string none = word_for_none(key);
  return std::visit(
      Overloaded{
          [&](int64_t* value) { return number(*value); },
          [&](uint64_t* value) { return number(*value); },
          [&](double* value) { return number(*value); },
          [&](std::optional<int64_t>* value) { return *value ? number(**value) : none; },
          [&](std::optional<double>* value) { return *value ? number(**value) : none; },
          [&](std::string* value) -> std::string {
            if (!key.path_of.empty() && value->empty()) {
              return key.choices.back();
            }
            const bool word = std::ranges::find(key.choices, *value) != key.choices.end();
            return word ? *value : yaml_quoted(*value);
          },
          [&](std::vector<std::string>* value) { return format_list(*value); },
          [&](std::optional<Patterns>* value) { return *value ? format_list(**value) : none; },
          [&](ValidationData* value) {
            return value->empty()        ? none
                   : value->path.empty() ? number(value->fraction)
                                         : format_list(value->path);
          },
          [&](auto*) -> std::string {
            fail(ExitCode::internal, "{} is a list of keys, not a value", key.name);
          },
      },
      slot);
}

}  // namespace hidup
