// Watches the times of all ranks, and tells which ranks and links are slow (cost/slow_ranks.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "cost/rank_costs.h"
#include "cost/slow_ranks.h"
#include "cost/watched_times.h"
#include "io/timing_file.h"
#include "program/program.h"

namespace hidup {

// Returns the line for people about the news. `hosts`: of every rank.
std::string describe(const SlowNews& news, const std::vector<WatchedPart>& parts,
                     const std::vector<std::string>& hosts);

// Returns the names of the causes in the timing file: of OperationClass, and "messages".
std::vector<std::string> straggler_causes();

// Returns the rows for the timing file: one for each rank of the part.
std::vector<StragglerRow> straggler_rows(const SlowNews& news, const WatchedPart& part,
                                         int64_t step);

// The ranks as the watch knows them, in their order.
struct WatchedCluster {
  std::vector<std::string> hosts;
  std::vector<int64_t> devices;      // numbers of the classes of devices
  const RankCosts* costs = nullptr;  // null: unknown
};

class Stragglers {
 public:
  // `timings`: null on all ranks but 0. `heard`: gets the news on rank 0, too; may be empty. The
  // costs, `world` and `timings` outlive the object.
  using Heard = std::function<void(const SlowNews&, const WatchedPart&)>;
  Stragglers(Communicator& world, WatchedCluster cluster, TimingFile* timings, Heard heard = {});

  // Collective. The next steps are those of this program, which outlives them. What is known of the
  // ranks' computations stays.
  void watch(const Program& program);

  // Collective. Adds the times of the next timed step, which all ranks took. At the end of a block
  // rank 0 logs and stores what is new.
  void add(int64_t step, std::span<const Interval> times);

 private:
  static constexpr int64_t kFirstSteps = 3;  // slower than others, so they do not count

  void end_block(int64_t step);

  Communicator& world_;
  WatchedCluster cluster_;
  TimingFile* timings_;
  Heard heard_;
  std::optional<WatchedTimes> mine_;
  int64_t seen_ = 0;                   // steps of the program with times
  int64_t first_ = 0;                  // step of the running block
  std::optional<WatchedParts> parts_;  // on rank 0
  std::optional<SlowRanks> watch_;     // on rank 0
};

}  // namespace hidup
