// The meetings of fake ranks' threads, one per collective.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace hidup {

// State of all groups of one set of fake ranks: a lock, and the first failure, which ends them all.
struct FakeWorld {
  explicit FakeWorld(double timeout_s) : timeout(timeout_s) {}
  // Stores the first failure and wakes all ranks. Call it with the lock held.
  void fail(const std::string& why);

  const double timeout;  // seconds
  std::mutex mutex;
  std::condition_variable changed;
  std::string failure;
};

// A rank's call of a collective.
struct Call {
  std::string doing;                    // "all_gather of x"; the same for all ranks
  std::vector<int64_t> counts;          // the same for all ranks, but for an all_to_all
  std::vector<int64_t> receive_counts;  // all_to_all: what this rank expects from each
  const void* send = nullptr;
  void* receive = nullptr;
  DType dtype = DType::f32;
};

// One channel of a group. Its collectives run one at a time, in the order in which each rank comes
// to them.
class Meeting {
 public:
  Meeting(std::shared_ptr<FakeWorld> world, int ranks);

  // Waits until all ranks came. The last one does the `work` for all, and only then does any rank
  // leave, so buffers may be reused at once. Throws Error(communication) as make_fake_ranks() says.
  void meet(int rank, Call call, const std::function<void(std::vector<Call>&)>& work);

 private:
  void hold(const std::function<void(std::vector<Call>&)>& work);
  std::string missing() const;

  std::shared_ptr<FakeWorld> world_;
  std::vector<std::optional<Call>> calls_;  // of the ranks that came
  int64_t held_ = 0;                        // number of finished meetings
};

}  // namespace hidup
