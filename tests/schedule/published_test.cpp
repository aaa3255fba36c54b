// Figures that others published, reached or beaten in the same memory.
#include <gtest/gtest.h>

#include <string>

#include "schedule/csv.h"
#include "schedule/named.h"
#include "support.h"

namespace hidup::pipeline {
namespace {

struct Published {
  std::string name;
  int microbatches;
  double bubble;  // the idle part of the longest span, rounded to 4 digits
  // The most that a device keeps in their schedule: chunks and microbatches that wait for their
  // last pass, and those of them that wait for their backward pass.
  int held;
  int live;
};

// P. Qi et al., the schedulers of "Zero Bubble Pipeline Parallelism" (ICLR 2024) and "Pipeline
// Parallelism with Controllable Memory" (NeurIPS 2024), on 8 devices. Their programs print the
// bubbles; the memory is that of the schedules that they make. A V has two chunks of half the
// times.
TEST(PublishedSchedules, OfZeroBubbleAreReached) {
  for (const Published& row : {Published{"1f1b", 24, 0.2431, 8, 8},
                               {"1f1b", 32, 0.1978, 8, 8},
                               {"zb-h1", 24, 0.1585, 8, 8},
                               {"zb-h2", 24, 0.0433, 24, 15},
                               {"zb-v", 24, 0.0703, 16, 16},
                               {"v-half", 24, 0.1702, 10, 10}}) {
    SCOPED_TRACE(fmt::format("{} {}", row.name, row.microbatches));
    const Made made = make(row.name, 8, row.microbatches, kMeasured);
    EXPECT_LE(made.bubble(), row.bubble + 0.00005);
    for (const DeviceRun& run : made.simulation.devices) {
      EXPECT_LE(run.held, row.held);
      EXPECT_LE(run.live, row.live);
    }
  }
}

TEST(PublishedSchedules, OfZeroBubbleInUnitTimes) {
  EXPECT_EQ(make("zb-h1", 4, 8).makespan(), 27);
  EXPECT_EQ(make("zb-h2", 4, 8).bubble(), 0.0);
  for (const DeviceRun& run : make("zb-h2", 4, 8).simulation.devices) {
    EXPECT_EQ(exact_seconds(run.span()), 24);
  }
}

// Returns the steps of DualPipeV as DeepSeek describes them (the DualPipe repository, 2025), for
// rank r of R. Every rank has the stages r and 2R - 1 - r.
class DualPipeV {
 public:
  DualPipeV(int ranks, int microbatches) : ranks_(ranks), microbatches_(microbatches) {}

  std::string row(int rank) {
    near_ = rank;
    far_ = 2 * ranks_ - 1 - rank;
    next_ = {};
    row_.clear();
    const int before = ranks_ - rank - 1;
    for (int i = 0; i < 2 * before; ++i) {  // 1. forward passes of the near stage
      forward(near_);
    }
    for (int i = 0; i <= rank; ++i) {  // 2. forward passes of both
      forward(near_);
      forward(far_);
    }
    for (int i = 0; i < before; ++i) {  // 3. backward, weights, forward pass of the far stage
      split_backward(far_);
      weights();
      forward(far_);
    }
    for (int i = 0; i < microbatches_ - 2 * ranks_ + rank + 1; ++i) {  // 4. both at once
      if (i == 0 && rank == ranks_ - 1) {  // the last rank would wait for its own results
        forward(near_);
        whole_backward(far_);
      } else {
        pair(near_, far_);
      }
      pair(far_, near_);
    }
    for (int i = 0; i < before; ++i) {  // 5. no forward passes of the near stage are left
      whole_backward(far_);
      pair(far_, near_);
    }
    for (int i = 0; i <= rank; ++i) {  // 6. backward passes; the second half of them is split
      for (const int stage : {far_, near_}) {
        const bool split = stage == far_ ? 2 * i >= rank + 1 : 2 * i + 1 >= rank + 1;
        split ? split_backward(stage) : whole_backward(stage);
      }
    }
    for (int i = 0; i < before; ++i) {  // 7. weights passes fill what is left
      weights();
      split_backward(near_);
    }
    while (!waiting_.empty()) {  // 8.
      weights();
    }
    return row_ + "\n";
  }

 private:
  struct Next {
    std::vector<int> forward = std::vector<int>(64, 0);
    std::vector<int> backward = std::vector<int>(64, 0);
  };

  std::string take(int stage, char pass) {
    std::vector<int>& next = pass == 'F' ? next_.forward : next_.backward;
    return fmt::format("{}{}{}", stage, pass, next[static_cast<size_t>(stage)]++);
  }
  void put(const std::string& cell) { row_ += (row_.empty() ? "" : ",") + cell; }
  void forward(int stage) { put(take(stage, 'F')); }
  void whole_backward(int stage) { put(take(stage, 'B')); }
  void split_backward(int stage) {
    std::string cell = take(stage, 'I');
    put(cell);
    cell[cell.find('I')] = 'W';
    waiting_.push_back(cell);
  }
  void weights() {
    put(waiting_.front());
    waiting_.erase(waiting_.begin());
  }
  void pair(int forward_stage, int backward_stage) {
    const std::string first = take(forward_stage, 'F');
    put(fmt::format("({};{})OVERLAP_F_B", first, take(backward_stage, 'B')));
  }

  int ranks_, microbatches_;
  int near_ = 0;
  int far_ = 0;
  Next next_;
  std::vector<std::string> waiting_;
  std::string row_;
};

TEST(PublishedSchedules, DualPipeV) {
  constexpr int kRanks = 4;
  std::string text;
  for (int rank = 0; rank < kRanks; ++rank) {
    text += DualPipeV(kRanks, 10).row(rank);
  }
  const ReadSchedule read = read_csv(text, 2 * kRanks, 10);
  const std::vector<Nanoseconds> one(8, nanoseconds(1));
  const Times times{.forward = one, .backward = one, .weights = one, .pair = nanoseconds(3)};
  const Simulation simulation = simulate(read.pipeline, read.schedule, times);
  EXPECT_EQ(exact_seconds(simulation.makespan), 66);
  int most = 0;
  for (const DeviceRun& run : simulation.devices) {
    // (ranks / 2 - 1) (pair + B - 3 W), where B is the whole backward pass of two chunks
    EXPECT_EQ(exact_seconds(simulation.makespan - run.work), 6);
    most = std::max(most, run.live);
  }
  EXPECT_EQ(most, 2 * kRanks + 1);

  const Made ours = make("dualpipe-v", kRanks, 10, {2e6, 2e6, 2e6}, 0, nanoseconds(3));
  EXPECT_LE(ours.makespan(), 66);
  for (const DeviceRun& run : ours.simulation.devices) {
    EXPECT_LE(run.live, 2 * kRanks + 1);
  }
}

}  // namespace
}  // namespace hidup::pipeline
