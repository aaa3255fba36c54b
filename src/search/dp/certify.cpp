#include "search/dp/certify.h"

#include <algorithm>

#include "search/dp/coarsen.h"
#include "search/dp/sweep.h"

namespace hidup {
namespace {

// Tensors whose dearest reshard takes at most this part of the best time lose their layouts: first
// a large part, which leaves few states even on several axes, then a small one.
constexpr double kMuch = 0.02, kLittle = 0.005;
// Sweeps of a problem with more states stop early, at little cost.
constexpr size_t kMostStates = 3000;
// The work of one sweep of the problem without overlap. Shipped decks need up to 1 million, experts
// on wide meshes 20 to 150 million.
constexpr size_t kRelaxation = 2'000'000;
constexpr size_t kMostExactStates = 200;
constexpr size_t kWider = 3;
// The growth of the work of a sweep kWider times as wide; 4.6 to 5.8 was seen.
constexpr size_t kMoreWork = 6;
// The least part of the gap between bound and best time that sweeps must close for wider ones to
// follow. Where they closed less, sweeps nine times as wide closed nothing either.
constexpr double kWorthwhile = 0.02;

class Certifier {
 public:
  Certifier(const Problem& problem, const DynamicOptions& options, const CertifyOptions& how,
            double best_s, DynamicResult& found)
      : problem_(problem),
        options_(options),
        how_(how),
        left_(how.work),
        best_s_(best_s),
        found_(found) {}

  void run() {
    if (may_sweep() && options_.bounds == 0) {  // solve() left it out
      relax();
    }
    bool goes_on = true;
    for (size_t width = how_.width; goes_on && may_sweep(); width *= kWider) {
      const size_t left = left_;
      const double missing_s = best_s_ - found_.lower_bound;
      goes_on = bound(kMuch, width);
      if (forgets(kMuch) > forgets(kLittle)) {
        goes_on |= bound(kLittle, width);
      }
      goes_on |= sweep(problem_, {.width = width, .states = kMostExactStates});
      // At any price of a byte, plans that do not fit may win, so this sweep drops them.
      if (found_.memory_multiplier > 0.0) {
        goes_on |= sweep(problem_, {.width = width, .states = kMostExactStates, .memory = true});
      }
      goes_on &= kMoreWork * (left - left_) <= left_ &&
                 best_s_ - found_.lower_bound <= (1.0 - kWorthwhile) * missing_s;
    }
  }

 private:
  bool may_sweep() const {
    return best_s_ > (1.0 + how_.gap) * found_.lower_bound && left_ > 0 &&
           !options_.deadline.has_passed();
  }

  // Without overlap, costs add up (relax.h). If a sweep exhausts its work, this coarsens the
  // problem; if that does not help, the sweep gets all the work.
  void relax() {
    const double before = found_.lower_bound;
    for (const double small : {kMuch, 4.0 * kMuch, 16.0 * kMuch}) {
      relax(small, kRelaxation);
      if (found_.lower_bound > before) {
        return;
      }
    }
    relax(kMuch, left_);
  }

  void relax(double small, size_t work) {
    Problem coarse = coarsened(problem_, small * best_s_);
    coarse.memory_limit = std::numeric_limits<double>::infinity();
    const DynamicResult relaxed =
        solve(coarse, {.width = 1, .states = 1, .bound_work = work, .deadline = options_.deadline});
    raise_bound(problem_, {}, relaxed.lower_bound, found_);
  }

  size_t forgets(double small) const { return small_tensors(problem_, small * best_s_); }

  bool bound(double small, size_t width) {
    return may_sweep() && sweep(coarsened(problem_, small * best_s_),
                                {.width = width, .states = kMostStates, .bound_only = true});
  }

  // Returns false where a wider sweep would stop early, too, or find the same.
  bool sweep(const Problem& problem, SweepOptions options) {
    if (!may_sweep()) {
      return false;
    }
    options.certified = true;
    options.memory_multiplier = options.memory ? 0.0 : found_.memory_multiplier;
    options.work = left_;
    options.deadline = options_.deadline;
    Sweep sweep(problem, options);
    const bool through = sweep.run();
    left_ -= std::min(left_, sweep.work());
    if (!through) {
      return false;
    }
    raise_bound(problem_, options, sweep.bound(), found_);
    if (!options.bound_only) {
      for (const Plan& plan : sweep.plans()) {
        add_if_it_fits(problem_, plan, found_);
      }
      put_in_order(found_);
      if (!found_.plans.empty()) {
        best_s_ = std::min(best_s_, found_.plans[0].cost.seconds);
      }
    }
    return sweep.narrowed();
  }

  const Problem& problem_;
  const DynamicOptions& options_;
  const CertifyOptions& how_;
  size_t left_;  // work left
  double best_s_;
  DynamicResult& found_;
};

}  // namespace

void certify(const Problem& problem, const DynamicOptions& options, const CertifyOptions& how,
             double best_s, DynamicResult& found) {
  if (how.width > 0) {
    Certifier(problem, options, how, best_s, found).run();
    put_in_order(found);
  }
}

}  // namespace hidup
