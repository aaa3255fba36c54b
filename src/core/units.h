// Quantities as decks write them ("32GiB", "9.71Gbps", "30us") and as people read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hidup {

// Times that have to be exact.
using Nanoseconds = int64_t;
Nanoseconds nanoseconds(double seconds);  // to the nearest one
double to_seconds(Nanoseconds time);

enum class Unit { none, bytes, seconds, bandwidth, flops };

// What the unit is called in messages and in the reference of the decks, with an example.
std::string_view describe(Unit unit);

// The value of `text` in base units (bytes, seconds, bytes per second, flop per
// second), or nothing if it is not a non-negative number with a suffix of this
// unit. Bandwidths in bits (Gbps, Mbps) become bytes per second. The suffix may
// be separated by a blank; only zero may go without one.
std::optional<double> parse_quantity(std::string_view text, Unit unit);

// "3.25 MiB", "512 B"
std::string format_bytes(int64_t bytes);

// "1.2 s", "22.7 ms", "13 us"
std::string format_seconds(double seconds);

// "4 s", "2 min 05 s", "1 h 02 min": for the time left
std::string format_duration(double seconds);

// "1,234,567"
std::string format_count(int64_t count);

}  // namespace hidup
