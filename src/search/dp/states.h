// The states of the dynamic programming: layouts of live tensors, all that later operations see.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "search/problem/layout_set.h"
#include "search/problem/problem.h"

namespace hidup {

// A live tensor.
struct TensorStatus {
  int layout = 0;  // the layout that its operation wrote
  // Layouts to which the tensor, and its gradient, were already resharded, as far as later readers
  // may require them.
  LayoutSet forward, backward;
};
using StatusId = uint32_t;

// Numbers every status that occurs.
class Statuses {
 public:
  StatusId id_of(const TensorStatus& status);
  const TensorStatus& operator[](StatusId id) const { return statuses_[id]; }
  size_t size() const { return statuses_.size(); }

 private:
  std::vector<TensorStatus> statuses_;
  std::map<std::tuple<int, LayoutSet, LayoutSet>, StatusId> ids_;
};

// Seconds and bytes that the reshards of an operation's inputs add to a plan.
struct Addition {
  double forward_comm = 0.0, forward_compute = 0.0;
  double backward_comm = 0.0, backward_compute = 0.0;
  double bytes = 0.0;
};

// Layouts in which later readers may require a tensor and leave its gradient.
struct LaterLayouts {
  LayoutSet required, gradient;
};

// A tensor that an operation reads.
struct ReadTensor {
  size_t producer = 0;
  size_t slot = 0;             // among the live tensors before the operation
  std::vector<size_t> inputs;  // the operation's inputs that are this tensor
  LaterLayouts later;
  bool last = false;  // no later operation reads it
};

// The live tensors per operation.
struct Liveness {
  std::vector<std::vector<size_t>> live;         // before it; a tensor has its operation's number
  std::vector<std::vector<ReadTensor>> read;     // tensors that it reads
  std::vector<std::vector<LaterLayouts>> later;  // of the live tensors
  std::vector<bool> is_read;                     // an operation reads its output
};
Liveness liveness_of(const Problem& problem);

// The states of a front. A state has a status per live tensor, in the order of Liveness::live.
class States {
 public:
  explicit States(size_t tensors) : tensors_(tensors), table_(kFirstTable, kNone) {}

  // Compares few numbers faster than std::equal(), which calls memcmp().
  static bool same(const StatusId* a, const StatusId* b, size_t tensors) {
    size_t t = 0;
    while (t < tensors && a[t] == b[t]) {
      ++t;
    }
    return t == tensors;
  }
  // Returns the state's number; adds new states.
  uint32_t find_or_add(const StatusId* key);
  const StatusId* key(size_t state) const { return keys_.data() + state * tensors_; }
  size_t size() const { return count_; }
  size_t tensors() const { return tensors_; }
  bool operator==(const States& other) const {
    return count_ == other.count_ && keys_ == other.keys_;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kFirstTable = 64;

  uint64_t hash(const StatusId* key) const;
  void grow();

  size_t tensors_;
  size_t count_ = 0;
  std::vector<StatusId> keys_;
  std::vector<uint32_t> table_;  // open addressing; size a power of two
};

// Returns an upper bound of the extra cost of later reads of a tensor in status a over status b, in
// an additive problem: each layout is paid for once. memory_multiplier: see SweepOptions.
double conversion(const TensorCosts& costs, const LaterLayouts& later, const TensorStatus& a,
                  const TensorStatus& b, double memory_multiplier);

// Returns a tensor's status after an operation reads it by this choice. Adds reshards to
// `addition`.
TensorStatus read_tensor(const Problem& problem, const ReadTensor& tensor, const Choice& choice,
                         TensorStatus status, Addition& addition);

}  // namespace hidup
