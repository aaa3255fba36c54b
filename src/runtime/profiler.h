// Measures the times of a profile on these ranks. Everything is collective.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "comm/communicator.h"
#include "cost/profile.h"
#include "cost/profile_check.h"
#include "kernels/products.h"
#include "runtime/executor.h"

namespace hidup {

// Times of the compute instructions of programs, each running alone on its rank.
class OperationTimer {
 public:
  // Returns true if the program has an operation of a size that did not run yet.
  bool lacks_any_of(const Program& program, int64_t rank) const;
  // Runs a warm-up step and then `steps` timed ones. `order`: in_turn or recorded_in_turn.
  void run(Executor& executor, int64_t rank, const StepInputs& inputs, int steps,
           Executor::Order order);
  // Returns the median time of every operation and size that ran. The sizes of packed rows are
  // those that experts got, whatever loads are expected.
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
  std::set<Key> ran_;  // by the expected work
};

// Collective. On rank 0, sets the time of each operation and size to that of the slowest rank, for
// which the others wait: ranks with different experts have different loads. `classes`: of every
// rank (ProfileKey), for which it sets the times of each class, too.
void take_slowest(Communicator& world, const std::vector<int64_t>& classes,
                  std::vector<OperationTime>& times);

// Collective. Returns on rank 0 the products whose fastest algorithm is clearly faster than the
// first one, with the number of that algorithm. The slowest rank decides an algorithm's time.
std::map<std::vector<int64_t>, int> fastest_algorithms(
    Communicator& world, const std::vector<kernels::AlgorithmTimes>& measured);

// The matrix product that keeps the compute stream of every rank busy beside messages.
struct ComputeLoad {
  DType dtype = DType::f32;
  int64_t rows = 128;
  int64_t summed = 256;
  int64_t columns = 128;
};

// Returns the product with the most flops among the operations, so that it occupies the device and
// its memory as they do. Leaves out long products, because several must run beside each message. If
// all are long, returns the shortest with fewer rows; without products, returns the default.
ComputeLoad heaviest_load(const std::vector<OperationTime>& operations);

struct MessageLimits {
  double bytes = 0.0;    // size of the largest message
  double seconds = 0.0;  // sizes end with the first message that takes longer beside the load
  int repetitions = 0;
  bool all_algorithms = false;  // false: only `automatic` and `windows`
};

// Times every collective over every axis with more than one rank, by the algorithms of the limits
// that all its groups can use, from 64 bytes upwards by factors of four, alone and beside the load.
// `load` is the same on all ranks. `threads`: threads of the compute stream.
std::vector<CollectiveTimes> time_collectives(Device& device, const MeshGroups& groups,
                                              const Mesh& mesh, Communicator& world, int threads,
                                              const ComputeLoad& load, const MessageLimits& limits);

// Returns, by axis, the time of an all_reduce in all groups of the axis at once relative to its
// time in one group while the other ranks idle, where the ratio is above 1.4. The size is the
// largest of the axis in `collectives` that takes at most `seconds`, else the smallest. All ranks
// return the same. `now` returns seconds: tests give a clock that other work does not disturb.
std::map<size_t, double> time_sharing(Device& device, const MeshGroups& groups, const Mesh& mesh,
                                      Communicator& world,
                                      const std::vector<CollectiveTimes>& collectives,
                                      double seconds,
                                      const std::function<double()>& now = monotonic_seconds);

// Returns the times of the probes, in their order. Repeats a probe less often than it asks if it
// takes much longer than its profile says.
std::vector<ProbeTimes> time_probes(Device& device, const MeshGroups& groups, Communicator& world,
                                    const std::vector<Probe>& probes);

// Gaps between instructions of a step that ran overlapped.
struct Gaps {
  std::vector<double> launch_s;  // after the preceding instruction of the same stream
  std::vector<double> signal_s;  // after an awaited instruction of another stream

  // Adds the gaps of a step on a rank.
  void add(const Program& program, const RankSteps& steps, std::span<const Interval> times);
};

}  // namespace hidup
