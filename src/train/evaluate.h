// The loss and the accuracy of a model on given samples, without training on them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "comm/communicator.h"
#include "deck/deck.h"
#include "runtime/executor.h"
#include "train/batches.h"

namespace hidup {

struct MeanLoss {
  double loss = 0.0;      // cross entropy per target, nats
  double accuracy = 0.0;  // fraction of the targets that have the largest logit
  int64_t targets = 0;
};

class Evaluator {
 public:
  // `forward`: of a program of lower_forward() with batches of train.batch. Its executor may share
  // a store with that of a training: run() then reads the parameters as they are. Samples 0 ..
  // sequences - 1 are looked at, 1 at least. All arguments outlive the evaluator.
  Evaluator(const Deck& deck, const Batches& batches, int64_t sequences, Executor& forward,
            Communicator& world);

  // All samples, batch by batch; the last batch is filled up with samples that have no targets.
  // Every rank gets the result. An Error that it throws is this rank's alone.
  MeanLoss run();

  // Collective, where the loss of run() is not finite: throws a CollectiveError(not_finite), which
  // says behind `when` in which batch that began, and where.
  [[noreturn]] void fail_not_finite(const std::string& when);

  // The batch that runs, from 1, for the heartbeat, from any thread; 0 before the first.
  int64_t current_batch() const { return batch_; }

 private:
  const Deck& deck_;
  const Batches& batches_;
  int64_t sequences_;
  Executor& forward_;
  Communicator& world_;
  std::atomic<int64_t> batch_ = 0;
  int64_t not_finite_ = 0;  // the first batch of run() whose loss is not; 0: none
  StepInputs inputs_;       // of the batch that starts next

  void fill(int64_t batch);
};

}  // namespace hidup
