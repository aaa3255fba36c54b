// The dynamic programming over all operations, once; for solve() only.
#pragma once

#include <deque>
#include <vector>

#include "search/dynamic.h"
#include "search/expand.h"
#include "search/repeats.h"

namespace hidup {

class Sweep {
 public:
  Sweep(const Problem& problem, const Limits& limits);

  // False if it has ended early: Limits::certain.
  bool run();
  // Afterwards:
  std::vector<Plan> plans() const;  // in the order of their priced seconds
  bool has_bound() const { return !expander_.dropped_states() && !estimated_; }
  double bound() const;  // of the priced seconds, if there is one
  size_t expanded() const { return traces_.size(); }
  size_t most_states() const { return expander_.most_states(); }
  size_t largest_front() const { return largest_front_; }

 private:
  // A front between two blocks of a repeat.
  struct Snapshot {
    size_t block = 0;
    Front front;
    // Whether a message has not been hidden since.
    bool exposed_forward = false, exposed_backward = false;
  };
  // That a front equals an earlier one but for what each block adds.
  struct Period {
    bool found = false;
    size_t blocks = 0;
    double seconds = 0.0, under = 0.0;
    double spare_forward = 0.0, spare_backward = 0.0;
  };

  // Skips blocks if the front repeats; the operations skipped.
  size_t skip(const Repeat& repeat, size_t block);
  Period period(const Snapshot& before, size_t block) const;
  // Whether the fastest plan alone has settled: then the others matter little, but there is no
  // bound any more.
  Period estimate(size_t block) const;

  const Problem& problem_;
  const Limits limits_;
  Expander expander_;
  Front front_;
  std::deque<Snapshot> snapshots_;          // of this repeat
  std::vector<std::vector<Trace>> traces_;  // of the expanded operations
  std::vector<size_t> trace_of_;            // per operation
  size_t largest_front_ = 0;
  bool estimated_ = false;
};

}  // namespace hidup
