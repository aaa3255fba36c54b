// Both passes of a norm, with shared operands.
#pragma once

#include "kernels/layer_norm.h"
#include "two_types.h"

namespace hidup::kernels::testing {

inline constexpr float kNormEps = 1e-5F;

template <typename Element>
struct Norm {
  int64_t rows;
  int64_t n;
  const Element* x;
  const Element* gamma;
  const Element* beta = nullptr;
  Element* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  const Element* dy = nullptr;
  const Element* added = nullptr;
  Element* dx = nullptr;
  float* dgamma = nullptr;
  float* dbeta = nullptr;

  // Returns this norm, or the RMS norm of the same operands.
  Norm centered(bool centered) const {
    Norm norm = *this;
    if (!centered) {
      norm.beta = nullptr;
      norm.mean = nullptr;
      norm.dbeta = nullptr;
    }
    return norm;
  }
  void forward(Stream& stream) const {
    layer_norm_forward<Element>(stream, {x, gamma, beta, y, mean, rstd, rows, n, kNormEps});
  }
  void backward(Stream& stream, bool accumulate = false) const {
    layer_norm_backward<Element>(
        stream, {x, gamma, mean, rstd, dy, added, dx, dgamma, dbeta, rows, n, accumulate});
  }
};

// A norm of 16-bit elements and the same of floats (two_types.h), of random operands.
template <typename Element>
struct NormOfBoth {
  NormOfBoth(int64_t of_rows, int64_t of_n) : rows(of_rows), n(of_n) {}

  template <typename Of>
  auto of(Of of) {
    return Norm<Pointee<decltype(of(x))>>{.rows = rows,
                                          .n = n,
                                          .x = of(x),
                                          .gamma = of(gamma),
                                          .beta = of(beta),
                                          .y = of(y),
                                          .mean = of(mean),
                                          .rstd = of(rstd),
                                          .dy = of(dy),
                                          .dx = of(dx),
                                          .dgamma = of(dgamma),
                                          .dbeta = of(dbeta)};
  }

  int64_t rows;
  int64_t n;
  const Numbers<Element> x{random_floats("x", rows* n, 2.0)};
  const Numbers<Element> gamma{random_floats("gamma", n)};
  const Numbers<Element> beta{random_floats("beta", n)};
  const Numbers<Element> dy{random_floats("dy", rows* n)};
  Results<Element> y{rows * n};
  Results<Element> dx{rows * n};
  Results<float> mean{rows};
  Results<float> rstd{rows};
  Results<float> dgamma{n};
  Results<float> dbeta{n};
};

}  // namespace hidup::kernels::testing
