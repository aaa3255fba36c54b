// Times that a profile holds, measured on these ranks. All of it is collective.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "comm/communicator.h"
#include "cost/profile.h"
#include "cost/profile_check.h"
#include "kernels/products.h"
#include "runtime/executor.h"

namespace hidup {

// Times of a program's instructions that compute, each alone on its rank.
class OperationTimer {
 public:
  // Whether the program has an operation of a size that did not run yet.
  bool lacks_any_of(const Program& program, int64_t rank) const;
  // Runs the steps behind one that warms up, with the instructions in turn: in_turn or
  // recorded_in_turn.
  void run(Executor& executor, int64_t rank, const StepInputs& inputs, int steps,
           Executor::Order order);
  // The median of every operation and size that ran.
  std::vector<OperationTime> times() const;

 private:
  struct Samples {
    Work work;
    std::vector<double> seconds;
  };
  using Key = std::tuple<Opcode, DType, std::vector<int64_t>>;

  static Key key_of(const Instruction& instruction, const Work& work) {
    return {instruction.opcode, work.dtype, work.sizes};
  }

  std::map<Key, Samples> samples_;
};

// Collective. On rank 0, an operation of some size takes as long as on the rank where it takes
// longest: the others wait for that one. Ranks with experts of their own have different loads.
void take_slowest(Communicator& world, std::vector<OperationTime>& times);

// Collective. On rank 0, the products that some algorithm does faster than the first one, on the
// rank where each takes longest, and the number of the fastest.
std::map<std::vector<int64_t>, int> fastest_algorithms(
    Communicator& world, const std::vector<kernels::AlgorithmTimes>& measured);

// What the compute stream of every rank is busy with beside messages: a matrix product.
struct ComputeLoad {
  DType dtype = DType::f32;
  int64_t rows = 128;
  int64_t summed = 256;
  int64_t columns = 128;
};

// The operations' product with the most flops, so that it takes as much of the device and its
// memory as theirs do. Long ones are left out: beside each message some run. Where all are long,
// the shortest with fewer rows; without products the default.
ComputeLoad heaviest_load(const std::vector<OperationTime>& operations);

struct MessageLimits {
  double bytes = 0.0;    // of the largest message
  double seconds = 0.0;  // no larger messages than those that take this long
  int repetitions = 0;
  bool all_algorithms = false;  // not only automatic ones and shared windows
};

// Every collective over every axis with more than one rank, by every algorithm that all its groups
// can use, from 64 bytes upwards by factors of four, alone and beside the load, which is the same
// on all ranks. `threads`: of the compute stream.
std::vector<CollectiveTimes> time_collectives(Device& device, const MeshGroups& groups,
                                              const Mesh& mesh, Communicator& world, int threads,
                                              const ComputeLoad& load, const MessageLimits& limits);

// By axis, how many times as long all_reduces take with all groups of the axis at once, as above,
// as with one alone while the other ranks idle: where that is clearly more, by 40 %. The size is
// the largest of the axis's times in `collectives` that take up to `seconds`. The same on all
// ranks.
std::map<size_t, double> time_sharing(Device& device, const MeshGroups& groups, const Mesh& mesh,
                                      Communicator& world,
                                      const std::vector<CollectiveTimes>& collectives,
                                      double seconds);

// What the probes take, in their order. A probe that takes much longer than its profile says is not
// repeated as often as it asks.
std::vector<ProbeTimes> time_probes(Device& device, const MeshGroups& groups, Communicator& world,
                                    const std::vector<Probe>& probes);

// Gaps between instructions of a step that ran overlapped.
struct Gaps {
  std::vector<double> launch_s;  // after the instruction before, in the same stream
  std::vector<double> signal_s;  // after one of the other stream, which it waited for

  // Adds those of a step's times.
  void add(const Program& program, std::span<const Interval> times);
};

// The middle value; of an even number the lower of the two. 0 of none.
double median(std::vector<double> values);

}  // namespace hidup
