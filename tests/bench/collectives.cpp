// Every algorithm of the collectives on MPI, against Open MPI's own collective, in turn:
//
//   mpirun -n 2 build/tests/bench/bench_collectives [LARGEST MiB] [repetitions] [--apart]
//
// f32, equal parts; a size is that of the data before a gather or after a scatter, times the number
// of ranks. Times are medians of the slowest rank. 2 ranks take a minute. The data lie in memory
// that all ranks see, like a step's values with windows; with --apart in each rank's own memory.
// Built by the target bench_collectives.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/mpi_collectives.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_peer_memory.h"
#include "comm/mpi_session.h"
#include "core/collective_algorithm.h"
#include "device/device.h"

namespace hidup {
namespace {

using enum CollectiveAlgorithm;

constexpr int64_t kSmallest = 4096;  // bytes

MPI_Comm g_group = MPI_COMM_NULL;  // separate: the heartbeat uses the world's

class Bench {
 public:
  Bench(Communicator& world, bool in_place, int64_t bytes, int repetitions)
      : collectives_(g_group, kMaxPiece),
        repetitions_(repetitions),
        rank_(world.rank()),
        size_(world.size()),
        part_(bytes / static_cast<int64_t>(sizeof(float)) / size_),
        counts_(static_cast<size_t>(size_), part_) {
    const std::unique_ptr<Device> device = make_device({});
    for (std::unique_ptr<Buffer>& buffer : buffers_) {
      buffer = in_place ? device->allocate_shared(bytes) : device->allocate(bytes);
      std::memset(buffer->data(), 0, static_cast<size_t>(bytes));
      registered_.push_back(collectives_.use_in_place(PeerMemory::map(world, *buffer)));
    }
  }

  void all_reduce() {
    const auto count = static_cast<int>(part_ * size_);
    compare(
        "all_reduce", {automatic, ring, halving, tree, windows},
        [&] { MPI_Allreduce(MPI_IN_PLACE, to(), count, MPI_FLOAT, MPI_SUM, g_group); },
        [&](CollectiveAlgorithm algorithm) {
          collectives_.all_reduce(to(), count, DType::f32, algorithm, "x");
        });
  }
  void all_gather() {
    const auto count = static_cast<int>(part_);
    compare(
        "all_gather", {automatic, ring, halving, windows},
        [&] { MPI_Allgather(from(), count, MPI_FLOAT, to(), count, MPI_FLOAT, g_group); },
        [&](CollectiveAlgorithm algorithm) {
          collectives_.all_gather(from(), to(), counts_, DType::f32, algorithm, "x");
        });
  }
  void reduce_scatter() {
    const auto count = static_cast<int>(part_);
    compare(
        "reduce_scatter", {automatic, ring, halving, windows},
        [&] { MPI_Reduce_scatter_block(from(), to(), count, MPI_FLOAT, MPI_SUM, g_group); },
        [&](CollectiveAlgorithm algorithm) {
          collectives_.reduce_scatter(from(), to(), counts_, DType::f32, algorithm, "x");
        });
  }
  void all_to_all() {
    const auto count = static_cast<int>(part_);
    compare(
        "all_to_all", {automatic, pairwise, bruck, windows},
        [&] { MPI_Alltoall(from(), count, MPI_FLOAT, to(), count, MPI_FLOAT, g_group); },
        [&](CollectiveAlgorithm algorithm) {
          collectives_.all_to_all(from(), counts_, to(), counts_, DType::f32, algorithm, "x");
        });
  }

 private:
  float* from() { return reinterpret_cast<float*>(buffers_[0]->data()); }
  float* to() { return reinterpret_cast<float*>(buffers_[1]->data()); }

  // Returns the seconds of `work` on the slowest rank.
  static double seconds_of(const std::function<void()>& work) {
    MPI_Barrier(g_group);
    const double start = MPI_Wtime();
    work();
    double seconds = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, g_group);
    return seconds;
  }
  void compare(const std::string& what, const std::vector<CollectiveAlgorithm>& algorithms,
               const std::function<void()>& by_mpi,
               const std::function<void(CollectiveAlgorithm)>& by_us) {
    std::vector<std::vector<double>> times(algorithms.size() + 1);  // the last: MPI's
    for (int round = -1; round < repetitions_; ++round) {           // the first warms up
      const double mpi_s = seconds_of(by_mpi);
      if (round >= 0) {
        times.back().push_back(mpi_s);
      }
      for (size_t a = 0; a < algorithms.size(); ++a) {
        const double seconds = seconds_of([&] { by_us(algorithms[a]); });
        if (round >= 0) {
          times[a].push_back(seconds);
        }
      }
    }
    const double mpi_s = std::ranges::min(times.back());
    std::string line =
        fmt::format("{:14} {:>6} KiB  MPI {:9.1f} us", what, part_ * size_ * 4 / 1024, 1e6 * mpi_s);
    for (size_t a = 0; a < algorithms.size(); ++a) {
      const double seconds = std::ranges::min(times[a]);
      line += fmt::format("  {} {:.1f} us {:.2f}x", name_of(algorithms[a]), 1e6 * seconds,
                          mpi_s / seconds);
    }
    if (rank_ == 0) {
      fmt::print("{}\n", line);
    }
  }

  MpiCollectives collectives_;
  int repetitions_;
  int rank_;
  int size_;
  int64_t part_;  // elements
  std::vector<int64_t> counts_;
  std::array<std::unique_ptr<Buffer>, 2> buffers_;
  std::vector<std::shared_ptr<void>> registered_;
};

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  hidup::MpiSession mpi(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &hidup::g_group);
  const bool apart = argc > 1 && std::string_view(argv[argc - 1]) == "--apart";
  argc -= apart ? 1 : 0;
  const int64_t largest = (argc > 1 ? std::atoi(argv[1]) : 64) * int64_t{1 << 20};
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 30;
  if (mpi.world().size() < 2) {
    fmt::print("for two ranks or more\n");
    return 1;
  }
  for (int64_t bytes = hidup::kSmallest; bytes <= largest; bytes *= 4) {
    hidup::Bench bench(mpi.world(), !apart, bytes, repetitions);
    bench.all_reduce();
    bench.all_gather();
    bench.reduce_scatter();
    bench.all_to_all();
  }
  MPI_Comm_free(&hidup::g_group);
}
