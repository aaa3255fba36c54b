// What the kernels of every launch function do with memory, against the least that they could: the
// table in kernels/counted.txt.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "../kernels/kernel_test.h"
#include "core/half.h"
#include "counters.h"

namespace hidup::kernels::testing {

// A launch function on operands of some size.
struct CountedCase {
  std::string function;  // as its header declares it; with _add, with what is added
  std::string operands;  // type and sizes
  int64_t read;  // bytes of all operands that it reads, and of those that it writes, each once
  int64_t written;
  std::function<void(Stream&)> launch;
  std::string reason = "";  // why it takes more
};

// Sums over all kernels of a case.
struct CountedRow {
  std::string name;  // function and operands
  double bytes;      // of the sectors of all requests, over the case's
  double read;
  double written;
  double spread;  // sectors that requests touch, over those that their bytes would fill
  double banks;   // wavefronts of shared memory, over those without bank conflicts; 0: none
  std::string reason;
};

class CountedTable {
 public:
  void add(const CountedCase& of);
  const std::vector<CountedRow>& rows() const { return rows_; }
  const std::set<std::string>& functions() const { return functions_; }
  const std::set<const void*>& kernels() const { return kernels_; }

 private:
  std::vector<CountedRow> rows_;
  std::set<std::string> functions_;
  std::set<const void*> kernels_;
};

// By the kind of what they count.
void count_elements(CountedTable& table);
void count_rows(CountedTable& table);
void count_tokens(CountedTable& table);
void count_experts(CountedTable& table);
void count_attention(CountedTable& table);

template <typename Element>
constexpr int64_t kBytes = sizeof(Element);

template <typename Element>
std::string operands_of(const std::string& sizes) {
  return (std::is_same_v<Element, float> ? "f32 " : "bf16 ") + sizes;
}

// Why requests to rows of so many bytes touch more sectors than these fill.
inline std::string reason_of_rows(int64_t bytes) {
  return bytes % 32 == 0 ? "" : "rows begin within a sector";
}

// Both, where there are both.
inline std::string joined(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + "; " + b;
}

template <typename Element>
DeviceArray<Element> ones(int64_t n) {
  return DeviceArray<Element>(static_cast<size_t>(n), Element(1.0F));
}

}  // namespace hidup::kernels::testing
