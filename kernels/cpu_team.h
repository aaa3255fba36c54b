// Work that a team of threads shares, as vector code for the running CPU. It may not throw.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/cpu_versions.h"

namespace hidup::kernels {

inline int64_t team_size() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

// Runs work(begin, end) on every thread that has a share of [0, n).
template <typename Work>
void for_shares(int64_t n, const Work& work) {
  const int64_t shares = std::min(n, team_size());
#pragma omp parallel for schedule(static)
  for (int64_t share = 0; share < shares; ++share) {
    versioned([&] { work(n * share / shares, n * (share + 1) / shares); });
  }
}

// Runs work(i) for every i of [0, n).
template <typename Work>
void for_each(int64_t n, const Work& work) {
  for_shares(n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      work(i);
    }
  });
}

// Does the same for several i at a time; no call may depend on another.
template <typename Work>
void for_each_element(int64_t n, const Work& work) {
  for_shares(n, [&](int64_t begin, int64_t end) {
    const Work own = work;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      own(i);
    }
  });
}

}  // namespace hidup::kernels
