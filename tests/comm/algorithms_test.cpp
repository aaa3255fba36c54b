// Results of the algorithms of collectives. Run it under mpirun on two ranks or more.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "algorithms_group.h"
#include "comm/mpi_collectives.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_session.h"
#include "core/half.h"
#include "device_needed/mpi_main.h"
#include "seen_memory.h"

namespace hidup {

MPI_Comm g_group = MPI_COMM_NULL;
Communicator* g_world = nullptr;

namespace {

using enum CollectiveAlgorithm;

constexpr int64_t kChunk = 1 << 18;  // elements that are added at once
constexpr int64_t kPart = 1 << 17;   // floats that a rank copies into its window at once

// Summands are small integers, so sums are exact in every type and order.
float summand(int of_rank, int64_t i) {
  return static_cast<float>((i * 7 + of_rank * 3) % 11);
}
float sum_at(int64_t i) {
  float sum = 0;
  for (int r = 0; r < size(); ++r) {
    sum += summand(r, i);
  }
  return sum;
}

// Returns [count] elements and one behind the end, which must not change.
template <typename T>
Values<T> room(int64_t count) {
  return Values<T>(static_cast<size_t>(count) + 1, T(99.0F));
}

template <typename T>
void expect_equal(const Values<T>& values, const std::function<float(int64_t)>& wanted,
                  const std::string& what) {
  const auto count = static_cast<int64_t>(values.size()) - 1;
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    wrong += static_cast<float>(values[static_cast<size_t>(i)]) != wanted(i) ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0) << what << ": of " << count << " elements";
  EXPECT_EQ(static_cast<float>(values.back()), 99.0F) << what << ": behind the end";
}

// Returns counts that are uneven, zero, all at one rank, or near `around`, where pieces are cut.
std::vector<Counts> count_patterns(int64_t around) {
  const auto ranks = static_cast<size_t>(size());
  std::vector<Counts> patterns = {Counts(ranks, 0), Counts(ranks, 5), Counts(ranks, 0),
                                  Counts(ranks, 0), Counts(ranks, 0)};
  patterns[2].back() = 2 * around + 1;
  for (size_t r = 0; r < ranks; ++r) {
    patterns[3][r] = r % 2 == 0 ? 0 : around + 1;
    patterns[4][r] = around - 1 + static_cast<int64_t>(r);
  }
  return patterns;
}

struct Case {
  CollectiveAlgorithm algorithm;
  int64_t max_piece;
  bool seen = false;  // the data lie in memory that all ranks see
};

std::string name_of_case(const testing::TestParamInfo<Case>& tested) {
  return std::string(name_of(tested.param.algorithm)) + std::to_string(tested.param.max_piece) +
         (tested.param.seen ? "seen" : "");
}

std::vector<Case> cases(const std::vector<CollectiveAlgorithm>& algorithms) {
  std::vector<Case> all;
  for (const CollectiveAlgorithm algorithm : algorithms) {
    all.push_back({algorithm, kMaxPiece});
    all.push_back({algorithm, kSmallPiece});
    if (algorithm == windows) {
      all.push_back({algorithm, kMaxPiece, true});
      all.push_back({algorithm, kSmallPiece, true});
    }
  }
  return all;
}

class OnRanks : public testing::TestWithParam<Case> {
 protected:
  OnRanks() : collectives_(g_group, GetParam().max_piece) {
    if (GetParam().seen) {
      memory_.emplace(collectives_, *g_world);
    }
  }
  void SetUp() override {
    if (memory_ && !memory_->is_seen()) {
      GTEST_SKIP() << "the system keeps the memory of processes apart";
    }
  }

  static bool cuts_all() { return GetParam().max_piece == kSmallPiece; }
  // Returns the lengths near which messages are cut, in elements.
  static Counts limits() {
    return cuts_all() ? Counts{kSmallPiece / size(), kSmallPiece}
                      : Counts{8192 / size(), kPart / size()};
  }

  template <typename T>
  void all_reduces(DType dtype) {
    Counts counts = {0, 1, size() - 1};
    for (const int64_t limit : limits()) {
      counts.insert(counts.end(), {limit - 1, limit, limit + 1, 2 * limit + 1});
    }
    if (!cuts_all() && dtype == DType::f32) {
      counts.insert(counts.end(), {kPart - 1, kPart + 1, kChunk + 1, 2 * kChunk + 1});
    }
    for (const int64_t count : counts) {
      Values<T> data = room<T>(count);
      for (int64_t i = 0; i < count; ++i) {
        data[static_cast<size_t>(i)] = T(summand(rank(), i));
      }
      collectives_.all_reduce(data.data(), count, dtype, GetParam().algorithm, "x");
      expect_equal(data, sum_at, "all_reduce");
    }
  }

  template <typename T>
  void reduce_scatters(DType dtype) {
    for (const int64_t limit : limits()) {
      for (const Counts& counts : count_patterns(limit)) {
        Values<T> send = room<T>(sum_of(counts));
        for (int64_t i = 0; i < sum_of(counts); ++i) {
          send[static_cast<size_t>(i)] = T(summand(rank(), i));
        }
        Values<T> receive = room<T>(own(counts));
        collectives_.reduce_scatter(send.data(), receive.data(), counts, dtype,
                                    GetParam().algorithm, "x");
        const int64_t start = sum_of(Counts(counts.begin(), counts.begin() + rank()));
        expect_equal(
            receive, [&](int64_t i) { return sum_at(start + i); }, "reduce_scatter");
      }
    }
  }

  template <typename T>
  void all_gathers(DType dtype) {
    for (const int64_t limit : limits()) {
      for (const Counts& counts : count_patterns(limit)) {
        Values<T> send = room<T>(own(counts));
        for (int64_t i = 0; i < own(counts); ++i) {
          send[static_cast<size_t>(i)] = T(summand(rank(), i));
        }
        Values<T> receive = room<T>(sum_of(counts));
        std::vector<float> wanted;
        for (int r = 0; r < size(); ++r) {
          for (int64_t i = 0; i < counts[static_cast<size_t>(r)]; ++i) {
            wanted.push_back(summand(r, i));
          }
        }
        collectives_.all_gather(send.data(), receive.data(), counts, dtype, GetParam().algorithm,
                                "x");
        expect_equal(
            receive, [&](int64_t i) { return wanted[static_cast<size_t>(i)]; }, "all_gather");
      }
    }
  }

  template <typename T>
  void exchanges(DType dtype, const std::function<int64_t(int, int)>& count_of) {
    Counts sends;
    Counts receives;
    std::vector<float> wanted;
    for (int peer = 0; peer < size(); ++peer) {
      sends.push_back(count_of(rank(), peer));
      receives.push_back(count_of(peer, rank()));
      for (int64_t i = 0; i < receives.back(); ++i) {
        wanted.push_back(summand(peer, i + rank()));
      }
    }
    Values<T> send = room<T>(sum_of(sends));
    auto next = send.begin();
    for (int peer = 0; peer < size(); ++peer) {
      for (int64_t i = 0; i < sends[static_cast<size_t>(peer)]; ++i) {
        *next++ = T(summand(rank(), i + peer));
      }
    }
    Values<T> receive = room<T>(sum_of(receives));
    collectives_.all_to_all(send.data(), sends, receive.data(), receives, dtype,
                            GetParam().algorithm, "x");
    expect_equal(
        receive, [&](int64_t i) { return wanted[static_cast<size_t>(i)]; }, "all_to_all");
  }

  template <typename T>
  void all_to_alls(DType dtype) {
    exchanges<T>(dtype, [](int, int) { return 0; });
    for (const int64_t limit : limits()) {
      exchanges<T>(dtype, [&](int from, int to) {
        return (from * 3 + to * 5 + from * to) % 3 * limit + (from + 2 * to) % 3;
      });
    }
    // One pair exchanges a long piece, of which the other ranks know nothing.
    exchanges<T>(dtype, [&](int from, int to) {
      return from == 0 && to == 1 ? 2 * limits().back() + 1 : 0;
    });
  }

  MpiCollectives collectives_;
  std::optional<SeenMemory> memory_;
};

class AllReduce : public OnRanks {};
class AllGather : public OnRanks {};
class ReduceScatter : public OnRanks {};
class AllToAll : public OnRanks {};

TEST_P(AllReduce, EqualsTheSum) {
  all_reduces<float>(DType::f32);
  all_reduces<BFloat16>(DType::bf16);
  all_reduces<Float16>(DType::f16);
}

// Rounded sums are the same on all ranks and in every run.
TEST_P(AllReduce, GivesAllTheSameBits) {
  Values<float> first;
  for (int repeat = 0; repeat < 3; ++repeat) {
    Values<float> data(3001);
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = 1.0F / static_cast<float>(3 + (i + 1) * static_cast<size_t>(rank() + 1));
    }
    collectives_.all_reduce(data.data(), 3001, DType::f32, GetParam().algorithm, "x");
    Values<float> of_rank_0 = data;
    MPI_Bcast(of_rank_0.data(), 3001, MPI_FLOAT, 0, g_group);
    EXPECT_EQ(data, of_rank_0);
    first = repeat == 0 ? data : first;
    EXPECT_EQ(data, first);
  }
}

TEST_P(ReduceScatter, EqualsTheSum) {
  reduce_scatters<float>(DType::f32);
  reduce_scatters<BFloat16>(DType::bf16);
  reduce_scatters<Float16>(DType::f16);
}

TEST_P(AllGather, PutsPartsInRankOrder) {
  all_gathers<float>(DType::f32);
  all_gathers<int32_t>(DType::i32);
  all_gathers<BFloat16>(DType::bf16);
}

TEST_P(AllToAll, ExchangesPieces) {
  all_to_alls<float>(DType::f32);
  all_to_alls<int32_t>(DType::i32);
  all_to_alls<Float16>(DType::f16);
}

// Ranks alternate between the halves of their windows, so that a fast rank does not write where
// others still read. Each collective has as many elements as one turn and follows without a pause.
void follow_each_other(MpiCollectives& collectives) {
  constexpr size_t kSums = 6;
  const int64_t part = kPart / size();
  const Counts parts(static_cast<size_t>(size()), part);
  const auto filled = [](int64_t count, size_t value) {
    return Values<float>(static_cast<size_t>(count), static_cast<float>(value));
  };
  int64_t wrong = 0;
  const auto look_at = [&](const Values<float>& values, size_t wanted) {
    wrong += std::ranges::count_if(
        values, [&](float value) { return value != static_cast<float>(wanted); });
  };
  const auto ranks = static_cast<size_t>(size());
  for (size_t repeat = 0; repeat < 10; ++repeat) {
    std::vector<Values<float>> sums;
    for (size_t value = 0; value < kSums; ++value) {
      sums.push_back(filled(part * size(), repeat + value));
    }
    const Values<float> send = filled(part * size(), 100 + repeat);
    Values<float> gathered = filled(part * size(), 0);
    Values<float> exchanged = gathered;
    Values<float> scattered = filled(part, 0);
    const auto all_reduce = [&](size_t i) {
      collectives.all_reduce(sums[i].data(), part * size(), DType::f32, windows, "x");
    };
    all_reduce(0);
    all_reduce(1);
    collectives.all_gather(send.data(), gathered.data(), parts, DType::f32, windows, "x");
    all_reduce(2);
    collectives.reduce_scatter(send.data(), scattered.data(), parts, DType::f32, windows, "x");
    all_reduce(3);
    collectives.all_to_all(send.data(), parts, exchanged.data(), parts, DType::f32, windows, "x");
    all_reduce(4);
    all_reduce(5);
    for (size_t value = 0; value < kSums; ++value) {
      look_at(sums[value], ranks * (repeat + value));
    }
    look_at(gathered, 100 + repeat);
    look_at(exchanged, 100 + repeat);
    look_at(scattered, ranks * (100 + repeat));
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Windows, OfCollectivesThatFollowEachOther) {
  MpiCollectives collectives(g_group, kMaxPiece);
  follow_each_other(collectives);
}

TEST(Windows, OfMemoryThatAllSee) {
  MpiCollectives collectives(g_group, kMaxPiece);
  const SeenMemory memory(collectives, *g_world);
  if (!memory.is_seen()) {
    GTEST_SKIP() << "the system keeps the memory of processes apart";
  }
  follow_each_other(collectives);
}

// Where one rank's memory is not shared all copy, and in the next collective none does.
TEST(Windows, OfMemoryThatAllSeeButOfOneRank) {
  MpiCollectives collectives(g_group, kMaxPiece);
  SeenMemory memory(collectives, *g_world);
  for (int apart = 0; apart < size(); ++apart) {
    SeenMemory::current() = rank() == apart ? nullptr : &memory;
    Values<float> data(static_cast<size_t>(kPart), static_cast<float>(rank() + 1));
    SeenMemory::current() = &memory;
    Values<float> seen = data;
    for (Values<float>* values : {&data, &seen}) {
      collectives.all_reduce(values->data(), kPart, DType::f32, windows, "x");
    }
    const int ranks = size() * (size() + 1) / 2;
    const auto sum = static_cast<float>(ranks);
    EXPECT_EQ(std::ranges::count(data, sum), kPart);
    EXPECT_EQ(seen, data);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, AllReduce,
                         testing::ValuesIn(cases({ring, halving, tree, windows})), name_of_case);
INSTANTIATE_TEST_SUITE_P(Algorithms, ReduceScatter,
                         testing::ValuesIn(cases({ring, halving, windows})), name_of_case);
INSTANTIATE_TEST_SUITE_P(Algorithms, AllGather, testing::ValuesIn(cases({ring, halving, windows})),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Algorithms, AllToAll, testing::ValuesIn(cases({pairwise, bruck, windows})),
                         name_of_case);

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  return hidup::mpi_main(argc, argv, [](hidup::MpiSession& mpi) {
    hidup::g_world = &mpi.world();
    MPI_Comm_dup(MPI_COMM_WORLD, &hidup::g_group);
    const int status = RUN_ALL_TESTS();
    MPI_Comm_free(&hidup::g_group);
    return status;
  });
}
