// Inside the CPU kernels: work that every thread of the team has a share of.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <cstdint>

namespace hidup::kernels {

inline int64_t team_size() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

// body(begin, end) on every thread that has a share of [0, n); it may not throw.
template <typename Body>
void for_shares(int64_t n, Body body) {
  const int64_t shares = std::min(n, team_size());
#pragma omp parallel for schedule(static)
  for (int64_t share = 0; share < shares; ++share) {
    body(n * share / shares, n * (share + 1) / shares);
  }
}

}  // namespace hidup::kernels
