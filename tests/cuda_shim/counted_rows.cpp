// Kernels on rows: norms, losses, biases.
#include "counted.h"
#include "kernels/bias.h"
#include "kernels/cross_entropy.h"
#include "kernels/layer_norm.h"
#include "kernels/residual_norm.h"

namespace hidup::kernels::testing {
namespace {

constexpr const char* kShares = "gamma for every row, and sums of blocks, from caches";

template <typename Element>
struct CountedRows {
  CountedTable& table;
  int64_t rows;
  int64_t n;
  int64_t matrix = rows * n * kBytes<Element>;  // bytes
  int64_t vector = n * kBytes<Element>;
  DeviceArray<Element> x = ones<Element>(rows * n);
  DeviceArray<Element> dy = ones<Element>(rows * n);
  DeviceArray<Element> y = ones<Element>(rows * n);
  DeviceArray<Element> sum = ones<Element>(rows * n);
  DeviceArray<Element> gamma = ones<Element>(n);
  DeviceArray<Element> beta = ones<Element>(n);
  Floats mean = ones<float>(rows);
  Floats rstd = ones<float>(rows);
  Floats dgamma = ones<float>(n);
  bool held = vector % 16 == 0;  // rows stay in registers
  Floats dbeta = ones<float>(n);

  void add(const std::string& function, int64_t read, int64_t written,
           const std::function<void(Stream&)>& launch, const std::string& reason) {
    table.add({function, operands_of<Element>(fmt::format("{} x {}", rows, n)), read, written,
               launch, joined(reason, reason_of_rows(vector))});
  }

  // An RMS norm has neither beta nor a mean.
  void layer_norm(bool centered) {
    const std::string name = centered ? "layer_norm" : "rms_norm";
    const Element* const shift = centered ? beta.data() : nullptr;
    float* const means = centered ? mean.data() : nullptr;
    float* const dshift = centered ? dbeta.data() : nullptr;
    const int64_t vectors = centered ? 2 : 1;
    add(
        name + "_forward", matrix + vectors * vector, matrix + 4 * vectors * rows,
        [=, this](Stream& stream) {
          layer_norm_forward<Element>(stream, {x.data(), gamma.data(), shift, y.data(), means,
                                               rstd.data(), rows, n, 1e-5F});
        },
        joined(held       ? ""
               : centered ? "x three times"
                          : "x twice",
               centered ? "gamma and beta for every row, from caches"
                        : "gamma for every row, from caches"));
    for (const bool adds : {false, true}) {
      add(
          name + (adds ? "_backward_add" : "_backward"),
          (adds ? 3 : 2) * matrix + vector + 4 * vectors * rows, matrix + 4 * vectors * n,
          [=, this](Stream& stream) {
            layer_norm_backward<Element>(stream, {x.data(), gamma.data(), means, rstd.data(),
                                                  dy.data(), adds ? sum.data() : nullptr, y.data(),
                                                  dgamma.data(), dshift, rows, n, false});
          },
          joined(held ? "" : "x and dy three times", kShares));
    }
  }

  void residual() {
    const OnDevice<StepState> state(StepState{.step = 1});
    const DropoutMask mask{box({rows, n}, {0, 0}, {rows, n}), 0.1F, 7, state.get()};
    add(
        "residual_norm", 2 * matrix + 2 * vector, 2 * matrix + 8 * rows,
        [this, &mask](Stream& stream) {
          residual_norm<Element>(
              stream, {x.data(), dy.data(), mask, gamma.data(), beta.data(), sum.data(), y.data(),
                       mean.data(), rstd.data(), rows, n, 1e-5F});
        },
        joined(held ? "" : "the sum twice", "gamma and beta for every row, from caches"));
  }

  void bias() {
    add(
        "bias_forward", matrix + vector, matrix,
        [this](Stream& stream) {
          bias_forward<Element>(stream, x.data(), gamma.data(), y.data(), rows, n);
        },
        "b once for every 16th row, from caches");
    add(
        "bias_backward", matrix, 4 * n,
        [this](Stream& stream) {
          bias_backward<Element>(stream, dy.data(), dbeta.data(), rows, n, false);
        },
        "partial sums of 64 rows are written and read");
  }
};

// `stride`: elements from row to row.
template <typename Element>
void count_losses(CountedTable& table, int64_t rows, int64_t vocab, int64_t stride) {
  const auto logits = ones<Element>(rows * stride);
  auto dlogits = ones<Element>(rows * stride);
  const Ints targets = random_tokens("targets", rows, vocab);
  auto lse = ones<float>(rows);
  auto loss = ones<float>(2);
  auto stats = ones<float>(3 * 2 * rows);
  const OnDevice<StepState> state(StepState{.step = 1});
  const int64_t matrix = rows * vocab * kBytes<Element>;
  const int64_t row = stride * kBytes<Element>;
  const std::string sizes = stride == vocab ? fmt::format("{} x {}", rows, vocab)
                                            : fmt::format("{} x {} of {}", rows, vocab, stride);
  const auto add = [&](const std::string& function, int64_t read, int64_t written,
                       const std::function<void(Stream&)>& launch, const std::string& reason) {
    table.add({function, operands_of<Element>(sizes), read, written, launch,
               joined(reason, reason_of_rows(row))});
  };
  const std::string one_by_one =
      row % 16 == 0 ? "" : "a thread reads neighbours one by one, from L1";
  add(
      "cross_entropy_forward", matrix + 4 * rows, 4 * rows + 8,
      [&](Stream& stream) {
        cross_entropy_forward<Element>(stream, {logits.data(), targets.data(), lse.data(),
                                                loss.data(), rows, vocab, 1.0F, false, stride});
      },
      joined(one_by_one, "the losses of rows are written and read"));
  add(
      "cross_entropy_stats", matrix + 4 * rows, 12 * rows,
      [&](Stream& stream) {
        cross_entropy_stats<Element>(
            stream, {logits.data(), targets.data(), stats.data(), rows, vocab, 0, stride});
      },
      one_by_one);
  add(
      "cross_entropy_backward", matrix + 8 * rows, matrix,
      [&](Stream& stream) {
        cross_entropy_backward<Element>(
            stream, {logits.data(), targets.data(), lse.data(), dlogits.data(), rows, vocab, 0,
                     1.0F, state.get(), stride});
      },
      "");
  if (kBytes<Element> == 4 && stride == vocab) {
    add(
        "cross_entropy_merge", 2 * 12 * rows + 4 * rows, 4 * rows + 8,
        [&](Stream& stream) {
          cross_entropy_merge(stream, {stats.data(), targets.data(), lse.data(), loss.data(), 2,
                                       rows, 1.0F, false});
        },
        "a thread a row: three neighbours apart; the losses of rows are written and read");
  }
}

template <typename Element>
void count_rows_of(CountedTable& table) {
  for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{512, 768}, {96, 4096}, {333, 1021}}) {
    CountedRows<Element> of{table, rows, n};
    of.layer_norm(true);
    of.layer_norm(false);
    of.residual();
    of.bias();
  }
  count_losses<Element>(table, 16, 16384, 16384);
  count_losses<Element>(table, 16, 5003, 5056);
  count_losses<Element>(table, 16, 5003, 5003);
}

}  // namespace

void count_rows(CountedTable& table) {
  count_rows_of<float>(table);
  count_rows_of<BFloat16>(table);
}

}  // namespace hidup::kernels::testing
