#include "search/dp/certify.h"

#include <algorithm>

#include "search/dp/coarsen.h"
#include "search/dp/sweep.h"

namespace hidup {
namespace {

// Of a tensor, what its dearest reshard takes is forgotten up to this part of the best time.
constexpr double kSmall = 0.005;
// The largest problems that are bounded: fronts of these sweeps seldom repeat.
constexpr size_t kMostOperations = 1500;
constexpr size_t kMostStates = 1000;
constexpr size_t kWider = 3;
// The largest that are swept as they are. Most of such a sweep's time goes there.
constexpr size_t kMostExactOperations = 300;
constexpr size_t kMostExactStates = 200;

class Certifier {
 public:
  Certifier(const Problem& problem, const DynamicOptions& options, const CertifyOptions& how,
            double best_s, DynamicResult& found)
      : problem_(problem), options_(options), how_(how), best_s_(best_s), found_(found) {}

  void run() {
    if (problem_.ops.size() > kMostOperations || is_near()) {
      return;
    }
    const Problem coarse = coarsened(problem_, kSmall * best_s_);
    const SweepOptions to_bound{.states = kMostStates, .bound_only = true};
    const size_t wider = kWider * how_.width;
    for (const size_t width : {how_.width, wider}) {
      sweep(coarse, to_bound, width);
    }
    if (problem_.ops.size() <= kMostExactOperations) {
      for (const size_t width : {how_.width, wider}) {
        sweep(problem_, {.states = kMostExactStates}, width);
      }
    }
    for (size_t width = kWider * wider; width <= how_.widest; width *= kWider) {
      sweep(coarse, to_bound, width);
    }
  }

 private:
  bool is_near() const { return best_s_ <= (1.0 + how_.gap) * found_.lower_bound; }

  void sweep(const Problem& problem, SweepOptions options, size_t width) {
    if (is_near()) {
      return;
    }
    options.width = width;
    options.certified = true;
    options.memory_multiplier = found_.memory_multiplier;
    options.deadline = options_.deadline;
    Sweep sweep(problem, options);
    if (!sweep.run()) {
      return;
    }
    raise_bound(problem_, options, sweep.bound(), found_);
    if (!options.bound_only) {
      for (const Plan& plan : sweep.plans()) {
        if (add_if_it_fits(problem_, plan, found_)) {
          best_s_ = std::min(best_s_, evaluate(problem_, plan).seconds);
        }
      }
    }
  }

  const Problem& problem_;
  const DynamicOptions& options_;
  const CertifyOptions& how_;
  double best_s_;
  DynamicResult& found_;
};

}  // namespace

void certify(const Problem& problem, const DynamicOptions& options, const CertifyOptions& how,
             double best_s, DynamicResult& found) {
  if (how.width > 0 && !found.plans.empty()) {
    Certifier(problem, options, how, best_s, found).run();
    finish(found);
  }
}

}  // namespace hidup
