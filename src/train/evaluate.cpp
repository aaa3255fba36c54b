#include "train/evaluate.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "core/check.h"
#include "deck/train_deck.h"
#include "train/inputs.h"
#include "train/not_finite.h"

namespace hidup {

Evaluator::Evaluator(const Deck& deck, const Batches& batches, int64_t sequences, Executor& forward,
                     Communicator& world)
    : deck_(deck), batches_(batches), sequences_(sequences), forward_(forward), world_(world) {
  check(sequences > 0, "an evaluation of {} sequences", sequences);
}

void Evaluator::fill(int64_t batch) {
  fill_inputs(forward_.program(), world_.rank(), deck_, batches_, batch, inputs_, sequences_);
}

MeanLoss Evaluator::run() {
  const int64_t size = deck_.train->batch;
  const int64_t last = (sequences_ + size - 1) / size;
  double loss = 0.0;
  double right = 0.0;
  not_finite_ = 0;
  fill(1);
  for (int64_t batch = 1; batch <= last; ++batch) {
    batch_ = batch;
    forward_.start(batch, 0.0, inputs_, execution_order(deck_, false));
    if (batch < last) {
      fill(batch + 1);  // while the batch runs
    }
    forward_.wait();
    const std::span<const float> sums = forward_.result(forward_.program().loss);
    if (!std::isfinite(sums[0]) && not_finite_ == 0) {
      not_finite_ = batch;
    }
    loss += static_cast<double>(sums[0]);
    right += static_cast<double>(sums[1]);
  }
  // The program's results are means over a whole batch, including samples without targets.
  const double batches = static_cast<double>(sequences_) / static_cast<double>(size);
  return {.loss = loss / batches,
          .accuracy = right / batches,
          .targets = sequences_ * batches_.targets()};
}

void Evaluator::fail_not_finite(const std::string& when) {
  fill(not_finite_);
  hidup::fail_not_finite(forward_, world_, not_finite_, 0.0, inputs_,
                         fmt::format("{}the loss of batch {} is not finite", when, not_finite_));
}

}  // namespace hidup
