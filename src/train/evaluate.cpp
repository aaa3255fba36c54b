#include "train/evaluate.h"

#include <span>

#include "core/check.h"
#include "train/inputs.h"
#include "train/setup.h"

namespace hidup {

Evaluator::Evaluator(const Deck& deck, const Batches& batches, int64_t sequences, Executor& forward,
                     int64_t rank)
    : deck_(deck), batches_(batches), sequences_(sequences), forward_(forward), rank_(rank) {
  check(sequences > 0, "an evaluation of {} sequences", sequences);
}

MeanLoss Evaluator::run() {
  const int64_t size = deck_.train.batch;
  const auto fill = [&](int64_t first) {
    fill_inputs(forward_.program(), rank_, batches_, first, inputs_, sequences_);
  };
  double loss = 0.0;
  double right = 0.0;
  fill(0);
  batch_ = 0;
  for (int64_t first = 0; first < sequences_; first += size) {
    ++batch_;
    forward_.start(batch_, 0.0, inputs_, execution_order(deck_, false));
    if (first + size < sequences_) {
      fill(first + size);  // while the batch runs
    }
    forward_.wait();
    const std::span<const float> sums = forward_.result(forward_.program().loss);
    loss += static_cast<double>(sums[0]);
    right += static_cast<double>(sums[1]);
  }
  // The program's are means over a whole batch, wherever there are no targets.
  const double batches = static_cast<double>(sequences_) / static_cast<double>(size);
  return {.loss = loss / batches,
          .accuracy = right / batches,
          .targets = sequences_ * batches_.targets()};
}

}  // namespace hidup
