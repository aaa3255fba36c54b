// The loss and the accuracy of a model on given samples, without training.
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
  double accuracy = 0.0;  // fraction of targets with the largest logit
  int64_t targets = 0;
};

class Evaluator {
 public:
  // `forward`: runs a program of lower_forward() with batches of train.batch. Its executor may
  // share a store with that of a training; run() then reads the current parameters. Evaluates
  // samples 0 .. sequences - 1, at least one. All arguments outlive the evaluator.
  Evaluator(const Deck& deck, const Batches& batches, int64_t sequences, Executor& forward,
            Communicator& world);

  // Evaluates all samples, batch by batch; samples without targets fill up the last batch. Every
  // rank gets the result. Errors are this rank's alone.
  MeanLoss run();

  // Collective, after a loss of run() that is not finite: throws a CollectiveError(not_finite)
  // whose text names, after `when`, the first such batch and the origin of the value.
  [[noreturn]] void fail_not_finite(const std::string& when);

  // Returns the running batch, from 1, or 0 before the first. Any thread may call it (heartbeat).
  int64_t current_batch() const { return batch_; }

 private:
  const Deck& deck_;
  const Batches& batches_;
  int64_t sequences_;
  Executor& forward_;
  Communicator& world_;
  std::atomic<int64_t> batch_ = 0;
  int64_t not_finite_ = 0;  // the first batch of run() with a loss that is not; 0: none
  StepInputs inputs_;       // of the next batch

  void fill(int64_t batch);
};

}  // namespace hidup
