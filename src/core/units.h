// Quantities as decks write them ("32GiB", "9.71Gbps", "30us") and as people read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hidup {

// Times that must be exact.
using Nanoseconds = int64_t;
Nanoseconds nanoseconds(double seconds);  // rounds to the nearest
double to_seconds(Nanoseconds time);

enum class Unit { none, bytes, seconds, bandwidth, flops };

// Returns the unit's name for messages and the reference of the decks, with an example.
std::string_view describe(Unit unit);

// Returns the value of `text` in base units (bytes, seconds, bytes per second, flop per second), or
// nothing if it is not a non-negative number with a suffix of this unit. Bandwidths in bits (Gbps,
// Mbps) become bytes per second. A blank may separate the suffix; only zero may go without one.
std::optional<double> parse_quantity(std::string_view text, Unit unit);

// Formats bytes as "3.25 MiB" or "512 B".
std::string format_bytes(int64_t bytes);

// Formats a time as "1.20 s", "22.70 ms" or "13.0 us".
std::string format_seconds(double seconds);

// Formats the time left as "4 s", "2 min 05 s" or "1 h 02 min".
std::string format_duration(double seconds);

// Formats a number as "1,234,567".
std::string format_count(int64_t count);

}  // namespace hidup
