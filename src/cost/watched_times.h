// Takes from a rank's times what tells slow ranks and links apart (slow_ranks.h).
//
// A rank's computation is the length of its instructions on the compute stream, by operation class.
// Operations whose time depends on the data (experts with their tokens) do not count. The time of a
// collective is the shortest length on any rank of its group: the rank that arrives last waits for
// nobody. So clocks of several hosts need not agree. Of the collectives of a block that send parts
// of the same sizes, the fastest one counts, because it met the least disturbance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cost/busy.h"
#include "cost/cost_model.h"
#include "cost/slow_ranks.h"
#include "program/program.h"

namespace hidup {

// Collectives that send parts of the same sizes along the same axes; the same on all ranks.
struct MessageKinds {
  static constexpr int kNone = -1;
  std::vector<int> number;  // kind of each instruction; kNone: it does not communicate
  std::vector<int> first;   // first instruction of each kind
  std::vector<int> count;   // instructions of each kind
};
MessageKinds message_kinds(const Program& program);

// The times of one rank in a block of steps.
struct RankDigest {
  double span_s = 0.0;            // from the first start to the last end of a step, median
  std::vector<double> classes_s;  // by OperationClass, median of the steps
  std::vector<double> least_s;    // by kind of message, NaN where the rank has none
};

// Collects a rank's times.
class WatchedTimes {
 public:
  WatchedTimes(const Program& program, int64_t rank);

  // Returns the expected times by operation class. Without costs, a byte counts as 16 flops.
  std::vector<double> expected(const CostModel* costs) const;
  // Returns a number that is the same on ranks that run the same instructions.
  uint64_t instructions() const;

  // Adds the intervals of a step's instructions.
  void add(std::span<const Interval> times);
  int64_t steps() const { return static_cast<int64_t>(spans_.size()); }
  // Returns the times of the steps since the last call.
  RankDigest take();

 private:
  const Program& program_;
  int64_t rank_;
  RankSteps steps_;
  MessageKinds kinds_;
  std::vector<std::optional<OperationClass>> classes_;  // of instructions that count
  std::vector<double> spans_;                           // [steps]
  std::vector<std::vector<double>> classes_s_;          // [operation class][steps]
  std::vector<double> least_s_;                         // [kind]
};

// A rank tells this to the others before the first step.
struct WatchedRank {
  std::vector<double> expected;  // WatchedTimes::expected()
  uint64_t instructions = 0;     // WatchedTimes::instructions()
  int64_t device = 0;            // number of its class of devices
};

// The watched parts of a program, and their times from those of the ranks.
class WatchedParts {
 public:
  // `ranks`: all of them.
  WatchedParts(const Program& program, const std::vector<WatchedRank>& ranks);

  const std::vector<WatchedPart>& parts() const { return parts_; }
  // `digests`: of all ranks, for the steps from `first` to `last`.
  WatchedBlock block(int64_t first, int64_t last, const std::vector<RankDigest>& digests) const;

 private:
  struct Messages {
    int kind = 0;
    int count = 0;
  };

  void add_groups(const Program& program);

  std::vector<WatchedPart> parts_;
  std::vector<std::vector<Messages>> messages_;  // of the parts that communicate
};

}  // namespace hidup
