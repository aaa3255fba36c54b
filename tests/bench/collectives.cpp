// Every algorithm of the collectives on MPI, against Open MPI's own collective, by turns:
//
//   mpirun -n 2 build/tests/bench/bench_collectives [LARGEST MiB] [repetitions]
//
// f32, equal parts; a size is that of the data before they are gathered or after they are
// scattered, times the number of ranks. Times are medians, of the slowest rank. 2 ranks take a
// minute. Built by the target bench_collectives.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "comm/mpi_collectives.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_session.h"
#include "core/collective_algorithm.h"

namespace hidup {
namespace {

using enum CollectiveAlgorithm;

constexpr int64_t kSmallest = 4096;  // bytes

MPI_Comm g_group = MPI_COMM_NULL;  // of its own: the heartbeat has messages in the world's

class Bench {
 public:
  Bench(int64_t bytes, int repetitions)
      : collectives_(g_group, kMaxPiece), repetitions_(repetitions) {
    MPI_Comm_rank(g_group, &rank_);
    MPI_Comm_size(g_group, &size_);
    part_ = bytes / static_cast<int64_t>(sizeof(float)) / size_;
    counts_.assign(static_cast<size_t>(size_), part_);
    from_.assign(static_cast<size_t>(part_ * size_), 0.0F);
    to_ = from_;
  }

  void all_reduce() {
    const auto count = static_cast<int>(part_ * size_);
    compare(
        "all_reduce", {automatic, ring, halving, tree, windows},
        [&] { MPI_Allreduce(MPI_IN_PLACE, to_.data(), count, MPI_FLOAT, MPI_SUM, g_group); },
        [&](CollectiveAlgorithm algorithm) {
          collectives_.all_reduce(to_.data(), count, DType::f32, algorithm, "x");
        });
  }
  void all_gather() {
    const auto count = static_cast<int>(part_);
    compare(
        "all_gather", {automatic, ring, halving, windows},
        [&] {
          MPI_Allgather(from_.data(), count, MPI_FLOAT, to_.data(), count, MPI_FLOAT, g_group);
        },
        [&](CollectiveAlgorithm algorithm) {
          collectives_.all_gather(from_.data(), to_.data(), counts_, DType::f32, algorithm, "x");
        });
  }
  void reduce_scatter() {
    const auto count = static_cast<int>(part_);
    compare(
        "reduce_scatter", {automatic, ring, halving, windows},
        [&] {
          MPI_Reduce_scatter_block(from_.data(), to_.data(), count, MPI_FLOAT, MPI_SUM, g_group);
        },
        [&](CollectiveAlgorithm algorithm) {
          collectives_.reduce_scatter(from_.data(), to_.data(), counts_, DType::f32, algorithm,
                                      "x");
        });
  }
  void all_to_all() {
    const auto count = static_cast<int>(part_);
    compare(
        "all_to_all", {automatic, pairwise, bruck, windows},
        [&] {
          MPI_Alltoall(from_.data(), count, MPI_FLOAT, to_.data(), count, MPI_FLOAT, g_group);
        },
        [&](CollectiveAlgorithm algorithm) {
          collectives_.all_to_all(from_.data(), counts_, to_.data(), counts_, DType::f32, algorithm,
                                  "x");
        });
  }

 private:
  // Seconds that `work` takes on the slowest rank.
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
  int rank_ = 0;
  int size_ = 1;
  int64_t part_ = 0;  // elements
  std::vector<int64_t> counts_;
  std::vector<float> from_;
  std::vector<float> to_;
};

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  hidup::MpiSession mpi(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &hidup::g_group);
  const int64_t largest = (argc > 1 ? std::atoi(argv[1]) : 64) * int64_t{1 << 20};
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 30;
  if (mpi.world().size() < 2) {
    fmt::print("for two ranks or more\n");
    return 1;
  }
  for (int64_t bytes = hidup::kSmallest; bytes <= largest; bytes *= 4) {
    hidup::Bench bench(bytes, repetitions);
    bench.all_reduce();
    bench.all_gather();
    bench.reduce_scatter();
    bench.all_to_all();
  }
  MPI_Comm_free(&hidup::g_group);
}
