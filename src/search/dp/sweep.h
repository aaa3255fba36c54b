// One sweep of the dynamic programming over all operations, for solve() and certify() only.
#pragma once

#include <deque>
#include <vector>

#include "search/dp/dynamic.h"
#include "search/dp/expand.h"
#include "search/dp/repeats.h"

namespace hidup {

class Sweep {
 public:
  Sweep(const Problem& problem, const SweepOptions& options);

  // Returns false if it stopped early: SweepOptions::certified, work, deadline.
  bool run();
  // The following hold after run().
  std::vector<Plan> plans() const;  // by rising PartialPlan::seconds
  bool has_bound() const { return !expander_.dropped_states() && !estimated_; }
  double bound() const;  // of PartialPlan::seconds, if has_bound()
  size_t expanded() const { return back_pointers_.size(); }
  bool narrowed() const { return expander_.narrowed(); }
  size_t work() const { return expander_.work(); }
  size_t largest_front() const { return largest_front_; }

 private:
  // A front between two blocks of a repeat.
  struct Snapshot {
    size_t block = 0;
    Front front;
    // True where a message was exposed since then.
    bool exposed_forward = false, exposed_backward = false;
  };
  // A front that equals an earlier one up to the cost of the blocks in between.
  struct Period {
    bool found = false;
    size_t blocks = 0;
    double seconds = 0.0, regret = 0.0;
    double spare_forward = 0.0, spare_backward = 0.0;
  };

  // Skips blocks if the front repeats. Returns the number of operations skipped.
  size_t skip(const Repeat& repeat, size_t block);
  Period period(const Snapshot& before, size_t block) const;
  // Guesses that the fastest plan grows per block as before. The other plans then matter little,
  // but the lower bound is lost.
  Period estimate(size_t block) const;

  const Problem& problem_;
  const SweepOptions options_;
  Expander expander_;
  Front front_;
  std::deque<Snapshot> snapshots_;                       // of this repeat
  std::vector<std::vector<BackPointer>> back_pointers_;  // per expanded operation
  std::vector<size_t> expanded_as_;                      // per operation: index in back_pointers_
  size_t largest_front_ = 0;
  bool estimated_ = false;
};

// Adds a plan to the results of sweeps if it fits in memory. Returns true where it fits.
bool add_if_it_fits(const Problem& problem, const Plan& plan, DynamicResult& found);
// Raises the lower bound. `bound`: of the seconds plus the price of the bytes in that sweep.
void raise_bound(const Problem& problem, const SweepOptions& options, double bound,
                 DynamicResult& found);
// Sorts the plans, best first.
void put_in_order(DynamicResult& found);

}  // namespace hidup
