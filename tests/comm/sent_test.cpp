// Bytes and steps of the algorithms of collectives. Run it under mpirun on two ranks or more. Calls
// of MPI are counted on their way (PMPI). n: ranks; S: bytes of all counts.
#include <gtest/gtest.h>
#include <mpi.h>

#include <atomic>
#include <bit>
#include <functional>
#include <vector>

#include "algorithms_group.h"
#include "comm/mpi_collectives.h"
#include "comm/mpi_communicator.h"

namespace {

// The heartbeat's thread sends, too, so counts are atomic.
std::atomic<int64_t> g_sent_bytes = 0;   // by MPI_Isend
std::atomic<int64_t> g_all_reduces = 0;  // calls of MPI_Allreduce
bool g_many_hosts = false;               // every rank seems to have a host of its own

}  // namespace

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm group, MPI_Request* request) {
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  g_sent_bytes += group == MPI_COMM_WORLD ? 0 : int64_t{count} * bytes;  // without the heartbeat
  return PMPI_Isend(data, count, type, to, tag, group, request);
}

extern "C" int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm group) {
  ++g_all_reduces;
  return PMPI_Allreduce(send, receive, count, type, op, group);
}

extern "C" int MPI_Comm_split_type(MPI_Comm group, int type, int key, MPI_Info info,
                                   MPI_Comm* part) {
  int rank = 0;
  PMPI_Comm_rank(group, &rank);
  return g_many_hosts ? PMPI_Comm_split(group, rank, key, part)
                      : PMPI_Comm_split_type(group, type, key, info, part);
}

namespace hidup {
namespace {

using enum CollectiveAlgorithm;

class Sent : public testing::Test {
 protected:
  // Returns the traffic of `work`. MPI must have been given as many bytes.
  Traffic of(const std::function<void(MpiCollectives&)>& work, int64_t max_piece = kMaxPiece) {
    MpiCollectives collectives(g_group, max_piece);
    g_sent_bytes = 0;
    work(collectives);
    EXPECT_EQ(g_sent_bytes.load(), collectives.traffic().bytes);
    return collectives.traffic();
  }
  Traffic of_all_reduce(int64_t count, CollectiveAlgorithm algorithm) {
    std::vector<float> data(static_cast<size_t>(count));
    return of([&](MpiCollectives& collectives) {
      collectives.all_reduce(data.data(), count, DType::f32, algorithm, "x");
    });
  }
  Traffic of_all_gather(const Counts& counts, CollectiveAlgorithm algorithm) {
    const std::vector<float> send(static_cast<size_t>(own(counts)));
    std::vector<float> receive(static_cast<size_t>(sum_of(counts)));
    return of([&](MpiCollectives& collectives) {
      collectives.all_gather(send.data(), receive.data(), counts, DType::f32, algorithm, "x");
    });
  }
  Traffic of_reduce_scatter(const Counts& counts, CollectiveAlgorithm algorithm,
                            int64_t max_piece = kMaxPiece) {
    const std::vector<float> send(static_cast<size_t>(sum_of(counts)));
    std::vector<float> receive(static_cast<size_t>(own(counts)));
    return of(
        [&](MpiCollectives& collectives) {
          collectives.reduce_scatter(send.data(), receive.data(), counts, DType::f32, algorithm,
                                     "x");
        },
        max_piece);
  }
  Traffic of_all_to_all(const Counts& sends, const Counts& receives,
                        CollectiveAlgorithm algorithm) {
    const std::vector<float> send(static_cast<size_t>(sum_of(sends)));
    std::vector<float> receive(static_cast<size_t>(sum_of(receives)));
    return of([&](MpiCollectives& collectives) {
      collectives.all_to_all(send.data(), sends, receive.data(), receives, DType::f32, algorithm,
                             "x");
    });
  }
  static int64_t over_ranks(int64_t value, MPI_Op op) {
    PMPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, op, g_group);
    return value;
  }

  const int64_t n_ = size();
  const int64_t log_n_ = std::bit_width(static_cast<uint64_t>(n_) - 1);  // rounded up
  Counts uneven_ = [this] {
    Counts counts;
    for (int64_t r = 0; r < n_; ++r) {
      counts.push_back(10 + 3 * r);
    }
    return counts;
  }();
};

// Every rank sends 2 S (n - 1) / n bytes in 2 (n - 1) steps.
TEST_F(Sent, ByRingAllReduce) {
  const Traffic traffic = of_all_reduce(100 * n_, ring);
  EXPECT_EQ(traffic.bytes, 2 * 4 * 100 * (n_ - 1));
  EXPECT_EQ(traffic.steps, 2 * (n_ - 1));
}

// Every rank sends 2 S (n - 1) / n bytes in 2 ceil(log2(n)) steps.
TEST_F(Sent, ByHalvingAllReduce) {
  const Traffic traffic = of_all_reduce(100 * n_, halving);
  EXPECT_EQ(traffic.bytes, 2 * 4 * 100 * (n_ - 1));
  EXPECT_EQ(traffic.steps, 2 * log_n_);
}

// Every edge of the tree carries S bytes up and down; rank 0 takes 2 ceil(log2(n)) steps, and no
// other rank more.
TEST_F(Sent, ByTreeAllReduce) {
  const Traffic traffic = of_all_reduce(100, tree);
  EXPECT_EQ(over_ranks(traffic.bytes, MPI_SUM), 2 * (n_ - 1) * 400);
  EXPECT_EQ(over_ranks(traffic.steps, MPI_MAX), 2 * log_n_);
  EXPECT_EQ(over_ranks(traffic.bytes, MPI_MAX), log_n_ * 400);
}

// A rank sends S less the next rank's part, in n - 1 steps.
TEST_F(Sent, ByRingAllGather) {
  const Traffic traffic = of_all_gather(uneven_, ring);
  const auto next = static_cast<size_t>((rank() + 1) % n_);
  EXPECT_EQ(traffic.bytes, 4 * (sum_of(uneven_) - uneven_[next]));
  EXPECT_EQ(traffic.steps, n_ - 1);
}

// S (n - 1) / n bytes with equal parts, (n - 1) S from all ranks with any; ceil(log2(n)) steps.
TEST_F(Sent, ByHalvingAllGather) {
  const Traffic even = of_all_gather(Counts(static_cast<size_t>(n_), 100), halving);
  EXPECT_EQ(even.bytes, 4 * 100 * (n_ - 1));
  EXPECT_EQ(even.steps, log_n_);
  const Traffic traffic = of_all_gather(uneven_, halving);
  EXPECT_EQ(over_ranks(traffic.bytes, MPI_SUM), 4 * (n_ - 1) * sum_of(uneven_));
  EXPECT_EQ(traffic.steps, log_n_);
}

// A rank sends S less its own part, in n - 1 steps; each step but the first takes as many as the
// longest part has chunks.
TEST_F(Sent, ByRingReduceScatter) {
  const Traffic traffic = of_reduce_scatter(uneven_, ring);
  EXPECT_EQ(traffic.bytes, 4 * (sum_of(uneven_) - own(uneven_)));
  EXPECT_EQ(traffic.steps, n_ - 1);
  const Traffic cut = of_reduce_scatter(Counts(static_cast<size_t>(n_), 2001), ring, kSmallPiece);
  EXPECT_EQ(cut.bytes, 4 * 2001 * (n_ - 1));
  EXPECT_EQ(cut.steps, 1 + 3 * (n_ - 2));
}

// S less the own part, in ceil(log2(n)) steps, repeated as the longest part exceeds its room.
TEST_F(Sent, ByHalvingReduceScatter) {
  const Traffic traffic = of_reduce_scatter(uneven_, halving);
  EXPECT_EQ(traffic.bytes, 4 * (sum_of(uneven_) - own(uneven_)));
  EXPECT_EQ(traffic.steps, log_n_);
  const int64_t room = kSmallPiece / n_;
  const Traffic cut =
      of_reduce_scatter(Counts(static_cast<size_t>(n_), 2 * room + 1), halving, kSmallPiece);
  EXPECT_EQ(cut.bytes, 4 * (2 * room + 1) * (n_ - 1));
  EXPECT_EQ(cut.steps, 3 * log_n_);
}

// A rank sends all pieces but its own, in n - 1 steps.
TEST_F(Sent, ByPairwiseAllToAll) {
  const Counts receives(static_cast<size_t>(n_), own(uneven_));
  const Traffic traffic = of_all_to_all(uneven_, receives, pairwise);
  EXPECT_EQ(traffic.bytes, 4 * (sum_of(uneven_) - own(uneven_)));
  EXPECT_EQ(traffic.steps, n_ - 1);
}

// A rank sends every piece, with 8 bytes for its length, once for every bit of its distance, in
// ceil(log2(n)) steps; twice as many where messages are long.
TEST_F(Sent, ByBruckAllToAll) {
  int64_t bits = 0;
  for (int64_t distance = 1; distance < n_; ++distance) {
    bits += std::popcount(static_cast<uint64_t>(distance));
  }
  for (const int64_t count : {100, 20000}) {
    const Counts counts(static_cast<size_t>(n_), count);
    const Traffic traffic = of_all_to_all(counts, counts, bruck);
    EXPECT_EQ(traffic.bytes, bits * (4 * count + 8));
    EXPECT_EQ(traffic.steps, count == 100 ? log_n_ : 2 * log_n_);
  }
}

// Windows send nothing.
TEST_F(Sent, ByWindows) {
  g_all_reduces = 0;
  EXPECT_EQ(of_all_reduce(100, windows).bytes, 0);
  EXPECT_EQ(of_reduce_scatter(uneven_, windows).bytes, 0);
  EXPECT_EQ(g_all_reduces.load(), 0);
}

// The communicator uses the algorithm that its caller chooses.
TEST_F(Sent, AsTheCallerChooses) {
  const auto world = make_mpi_communicator(g_group);
  OwnStream stream;
  Array<float> data(stream, std::vector<float>(static_cast<size_t>(4 * n_), 1.0F));
  const Counts ones(static_cast<size_t>(n_), 1);
  const auto sent_by = [&](const std::function<void()>& give) {
    g_sent_bytes = 0;
    give();
    stream->synchronize();
    return g_sent_bytes.load();
  };
  float* const to = data.data() + 2 * n_;
  EXPECT_EQ(sent_by([&] { world->all_reduce(*stream, data.data(), n_, DType::f32, ring, "x"); }),
            2 * 4 * (n_ - 1));
  EXPECT_EQ(
      sent_by([&] { world->all_gather(*stream, data.data(), to, ones, DType::f32, ring, "x"); }),
      4 * (n_ - 1));
  EXPECT_EQ(sent_by([&] {
              world->reduce_scatter(*stream, data.data(), to, ones, DType::f32, halving, "x");
            }),
            4 * (n_ - 1));
  EXPECT_GT(sent_by([&] {
              world->all_to_all(*stream, data.data(), ones, to, ones, DType::f32, bruck, "x");
            }),
            4 * (n_ - 1));
}

// MPI's own algorithm replaces one that is impossible here.
TEST_F(Sent, ByMpiWhereRanksHaveSeveralHosts) {
  g_many_hosts = true;
  g_all_reduces = 0;
  MpiCollectives collectives(g_group, kMaxPiece);
  float one = 1.0F;
  collectives.all_reduce(&one, 1, DType::f32, windows, "x");
  EXPECT_EQ(one, static_cast<float>(n_));
  collectives.all_reduce(&one, 1, DType::f32, pairwise, "x");  // pairwise is no algorithm of a sum
  EXPECT_EQ(one, static_cast<float>(n_ * n_));
  EXPECT_EQ(g_all_reduces.load(), 2);
  g_many_hosts = false;
}

}  // namespace
}  // namespace hidup
