// Ranks exchange the rows of experts by counts: no more elements, and no fewer.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <numeric>

#include "fake_ranks/fake_ranks.h"
#include "fake_ranks/forwarding_rank.h"
#include "search/named/named_strategies.h"
#include "sharding/placement.h"
#include "short_run.h"
#include "strategy_cases.h"

namespace hidup {
namespace {

// Elements that ranks send each other in all-to-alls of a step, by the name of the message.
class SentElements {
 public:
  void add(const std::string& name, int64_t count) {
    const std::lock_guard lock(mutex_);
    sent_[name] += count;
  }
  std::map<std::string, int64_t> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(sent_, {});
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int64_t> sent_;
};

// Counts what all-to-alls send to other ranks.
class CountingRank : public ForwardingRank {
 public:
  CountingRank(std::unique_ptr<Communicator> own, SentElements& sent)
      : ForwardingRank(std::move(own)), sent_(sent) {}

  void all_reduce(Stream& stream, void* data, int64_t count, DType dtype,
                  CollectiveAlgorithm algorithm, const std::string& name) override {
    own().all_reduce(stream, data, count, dtype, algorithm, name);
  }
  void all_gather(Stream& stream, const void* send, void* receive,
                  const std::vector<int64_t>& counts, DType dtype, CollectiveAlgorithm algorithm,
                  const std::string& name) override {
    own().all_gather(stream, send, receive, counts, dtype, algorithm, name);
  }
  void reduce_scatter(Stream& stream, const void* send, void* receive,
                      const std::vector<int64_t>& counts, DType dtype,
                      CollectiveAlgorithm algorithm, const std::string& name) override {
    own().reduce_scatter(stream, send, receive, counts, dtype, algorithm, name);
  }
  void all_to_all(Stream& stream, const void* send, const std::vector<int64_t>& send_counts,
                  void* receive, const std::vector<int64_t>& receive_counts, DType dtype,
                  CollectiveAlgorithm algorithm, const std::string& name) override {
    for (int peer = 0; peer < size(); ++peer) {
      sent_.add(name, peer == rank() ? 0 : send_counts[static_cast<size_t>(peer)]);
    }
    own().all_to_all(stream, send, send_counts, receive, receive_counts, dtype, algorithm, name);
  }
  std::unique_ptr<Communicator> split(int64_t color) override {
    return std::make_unique<CountingRank>(ForwardingRank::split(color), sent_);
  }

 private:
  SentElements& sent_;
};

// The counts [experts, batch] that the host was told in the last step.
std::vector<int32_t> counts_of(Executor& executor) {
  const Program& program = executor.program();
  for (size_t v = 0; v < program.values.size(); ++v) {
    if (program.values[v].role == Value::Role::counts) {
      std::vector<int32_t> counts(static_cast<size_t>(elements(program.values[v].shape)));
      executor.read(static_cast<ValueId>(v), 0, static_cast<int64_t>(counts.size()),
                    reinterpret_cast<std::byte*>(counts.data()));
      return counts;
    }
  }
  return {};
}

// Returns the rows that cross ranks, where sequences and experts are cut alike; of every expert and
// sequence, those from row `first` on.
int64_t rows_between(const std::vector<int32_t>& counts, int64_t experts, int64_t batch,
                     int64_t ranks, int64_t first) {
  const auto owner = [ranks](int64_t extent, int64_t index) {
    const std::vector<int64_t> offsets = balanced_offsets(extent, ranks);
    return std::ranges::upper_bound(offsets, index) - offsets.begin();
  };
  int64_t rows = 0;
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t count = counts[static_cast<size_t>(e * batch + b)];
      rows += owner(experts, e) == owner(batch, b) ? 0 : std::max<int64_t>(0, count - first);
    }
  }
  return rows;
}

// `slack`: of the lowering. Then experts take `rows` rows of a sequence in a round.
void expect_sent_by_counts(std::optional<double> slack, int64_t rows) {
  constexpr int64_t kExperts = 5;
  constexpr int64_t kBatch = 5;
  constexpr int64_t kHidden = 12;
  // Rows go to the experts and back, in both passes; those of later rounds twice in the forward
  // one, which the backward pass recomputes.
  constexpr int64_t kExchanges = 4;
  constexpr int64_t kRecomputed = 2;
  const Graph graph = strategy_model("bert", "top2", kExperts);
  for (const int ranks : {2, 3, 4}) {
    const Strategy strategy = named_strategy("ep-fastmoe", graph, {{"ranks", ranks}});
    SentElements sent;
    int64_t expected = 0;
    int64_t recomputed = 0;
    run_ranks(ranks, [&](Communicator& own) {
      CountingRank world(own.split(0), sent);
      const auto after_step = [&](Executor& executor, int step) {
        world.barrier();
        if (world.rank() == 0 && step == 1) {
          sent.take();
        }
        if (world.rank() == 0 && step == 2) {
          int64_t found = 0;
          for (const auto& [name, count] : sent.take()) {
            found += name.find("moe") == std::string::npos ? 0 : count;
          }
          const std::vector<int32_t> counts = counts_of(executor);
          expected = kHidden * rows_between(counts, kExperts, kBatch, ranks, 0);
          recomputed = slack ? kHidden * rows_between(counts, kExperts, kBatch, ranks, rows) : 0;
          EXPECT_EQ(found, kExchanges * expected + kRecomputed * recomputed) << ranks << " ranks";
        }
        world.barrier();
      };
      run_steps(graph, strategy, world, 2, kStrategyVocab, after_step, 0, {.expert_slack = slack});
    });
    EXPECT_GT(expected, 0);
    EXPECT_EQ(recomputed > 0, slack.has_value());
  }
}

TEST(PackedRows, AreSentByCounts) {
  expect_sent_by_counts({}, 0);
}

// Sequences of 7 tokens choose 2 of 5 experts: 2.8 rows of an expert in the mean.
TEST(PackedRows, AreSentInRoundsByCounts) {
  expect_sent_by_counts(1.0, 3);
}

// Profiles time operations by this work. Loads that are expected do not change it.
TEST(PackedRows, AreWorkByTheRowsThatExpertsGot) {
  constexpr int64_t kExperts = 4;
  const Graph graph = with_loads(
      strategy_model("bert", "top2", kExperts),
      {std::make_shared<const std::vector<double>>(std::vector<double>{4.0, 0.0, 0.0, 0.0})});
  const Strategy strategy = named_strategy("ep-fastmoe", graph, {{"ranks", 2}});
  run_ranks(2, [&](Communicator& world) {
    run_steps(graph, strategy, world, 1, kStrategyVocab, [&](Executor& executor, int step) {
      if (step == 0) {
        return;
      }
      const std::vector<int32_t> counts = counts_of(executor);
      const auto half = static_cast<std::ptrdiff_t>(counts.size() / 2);
      const auto first = counts.begin() + world.rank() * half;
      const int64_t rows = std::accumulate(first, first + half, int64_t{0});
      int products = 0;
      for (size_t i = 0; i < executor.program().instructions.size(); ++i) {
        const Sizes sizes = executor.work_done(i).sizes;
        if (sizes.size() == 4) {  // of experts
          EXPECT_EQ(sizes[0], kExperts / 2);
          EXPECT_NEAR(static_cast<double>(sizes[1]), static_cast<double>(rows) / 2.0, 0.5);
          ++products;
        }
      }
      EXPECT_GT(products, 0);
    });
  });
}

}  // namespace
}  // namespace hidup
