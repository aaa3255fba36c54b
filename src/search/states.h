// What the rest of a plan needs to know of the operations so far: in which layouts the tensors are
// that are still to be read.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "search/layout_set.h"
#include "search/problem.h"

namespace hidup {

// Of a tensor: as its operation wrote it, and the layouts to which it, or its gradient, has been
// brought, as far as readers to come may want them.
struct TensorStatus {
  int layout = 0;
  LayoutSet forward, backward;
};
using StatusId = uint16_t;

// Every status that occurs, under a number.
class Statuses {
 public:
  StatusId id_of(const TensorStatus& status);
  const TensorStatus& operator[](StatusId id) const { return statuses_[id]; }
  size_t size() const { return statuses_.size(); }

 private:
  std::vector<TensorStatus> statuses_;
  std::map<std::tuple<int, LayoutSet, LayoutSet>, StatusId> ids_;
};

// What an operation adds to a plan, with the reshards of what it reads.
struct Addition {
  double forward_comm = 0.0, forward_compute = 0.0;
  double backward_comm = 0.0, backward_compute = 0.0;
  double bytes = 0.0;
};

// Layouts in which readers to come may want a tensor, and give its gradient.
struct LaterReadings {
  LayoutSet wants, gives;
};

// A tensor that an operation reads.
struct ReadTensor {
  size_t producer = 0;
  size_t slot = 0;             // among the tensors that are live before the operation
  std::vector<size_t> inputs;  // of the operation that are this tensor
  LaterReadings later;
  bool last = false;  // there are no readers behind this one
};

// Which tensors are live where.
struct Liveness {
  // Per operation:
  std::vector<std::vector<size_t>> live;  // before it: operations whose output is yet to be read
  std::vector<std::vector<ReadTensor>> read;      // by it
  std::vector<std::vector<LaterReadings>> later;  // of the live ones
  std::vector<bool> is_read;                      // its output
};
Liveness liveness_of(const Problem& problem);

// The states of a front: for each a status per live tensor, in the order of Liveness::live.
class States {
 public:
  explicit States(size_t tensors) : tensors_(tensors), table_(kFirstTable, kNone) {}

  // The state's number; a new one where it is not there yet.
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
  std::vector<uint32_t> table_;  // open addressing; its size is a power of two
};

// The most that reading a tensor can yet cost more in status a than in status b, where all seconds
// count alike: each layout is paid for once.
double conversion(const TensorCosts& costs, const Problem& problem, const LaterReadings& later,
                  const TensorStatus& a, const TensorStatus& b, double price);

// Brings a tensor from the status before to where the operation, computed in that way, reads it.
TensorStatus read_tensor(const Problem& problem, const ReadTensor& tensor, const Choice& choice,
                         TensorStatus status, Addition& addition);

}  // namespace hidup
