// Tables of numbers that stay in memory between calls, for CPU kernels.
#pragma once

#include <cstdint>
#include <vector>

namespace hidup::kernels {

// Returns `length` floats, which compute(floats) writes if `of` differs from the last call's. One
// stream is one thread: each has its own table and needs no lock.
template <typename Of, typename Compute>
const float* table_of(const Of& of, int64_t length, Compute compute) {
  thread_local Of computed;
  thread_local std::vector<float> values;
  if (computed != of) {
    computed = of;
    values.resize(static_cast<size_t>(length));
    compute(values.data());
  }
  return values.data();
}

}  // namespace hidup::kernels
