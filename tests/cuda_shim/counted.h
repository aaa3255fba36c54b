// Memory accesses of every launch function's kernels, against the least possible: the table in
// kernels/counted.txt.
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
  std::string function;  // as its header declares it; _add where it adds
  std::string operands;  // type and sizes
  int64_t read;          // bytes of all operands, each once; read and written
  int64_t written;
  std::function<void(Stream&)> launch;
  std::string reason = "";  // why accesses exceed the least
};

// Sums over all kernels of a case.
struct CountedRow {
  std::string name;  // function and operands
  double bytes;      // of all requests' sectors, over the operands' bytes
  double read;
  double written;
  double spread;  // sectors touched by requests, over the sectors that their bytes would fill
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

// Add the rows of each kind of kernels.
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

// Returns why requests to rows of so many bytes touch extra sectors.
inline std::string reason_of_rows(int64_t bytes) {
  return bytes % 32 == 0 ? "" : "rows begin within a sector";
}

// Joins the two reasons where both exist.
inline std::string joined(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + "; " + b;
}

template <typename Element>
DeviceArray<Element> ones(int64_t n) {
  return DeviceArray<Element>(static_cast<size_t>(n), Element(1.0F));
}

}  // namespace hidup::kernels::testing
