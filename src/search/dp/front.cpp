#include "search/dp/front.h"

#include <algorithm>
#include <limits>

namespace hidup {
namespace {

void add_regret(PartialPlan& kept, const PartialPlan& dropped, double bound) {
  kept.regret = std::max(kept.regret, dropped.regret + bound);
}

// Leaves the plans that no other one dominates, in the order of seconds.
void drop_dominated(std::vector<PartialPlan>& plans, const Comparison& by) {
  std::ranges::stable_sort(plans, {}, &PartialPlan::seconds);
  size_t kept = 0;
  for (size_t p = 0; p < plans.size(); ++p) {
    bool dominated = false;
    for (size_t k = 0; k < kept && !dominated; ++k) {
      const double bound = regret_bound(plans[k], plans[p], by);
      dominated = bound <= 0.0;
      if (dominated) {
        add_regret(plans[k], plans[p], bound);
      }
    }
    if (!dominated) {
      plans[kept++] = plans[p];
    }
  }
  plans.resize(kept);
}

// Starts with the fastest plan and adds, again and again, the plan of the largest regret
// (farthest-first traversal: Gonzalez, Theoretical Computer Science 38, 1985).
void keep_few(std::vector<PartialPlan>& plans, size_t width, const Comparison& by) {
  struct Nearest {
    size_t kept = 0;
    double bound = std::numeric_limits<double>::infinity();
    bool is_kept = false;
  };
  std::vector<Nearest> nearest(plans.size());
  const auto keep = [&](size_t kept) {
    nearest[kept].is_kept = true;
    for (size_t p = 0; p < plans.size(); ++p) {
      const double bound = nearest[p].is_kept ? 0.0 : regret_bound(plans[kept], plans[p], by);
      if (!nearest[p].is_kept && bound < nearest[p].bound) {
        nearest[p].kept = kept;
        nearest[p].bound = bound;
      }
    }
  };
  keep(0);
  for (size_t count = 1; count < width; ++count) {
    size_t worst = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (size_t p = 0; p < plans.size(); ++p) {
      if (!nearest[p].is_kept && nearest[p].bound > most) {
        worst = p;
        most = nearest[p].bound;
      }
    }
    keep(worst);
  }
  for (size_t p = 0; p < plans.size(); ++p) {
    if (!nearest[p].is_kept) {
      add_regret(plans[nearest[p].kept], plans[p], nearest[p].bound);
    }
  }
  size_t count = 0;
  for (size_t p = 0; p < plans.size(); ++p) {
    if (nearest[p].is_kept) {
      plans[count++] = plans[p];
    }
  }
  plans.resize(count);
}

}  // namespace

double regret_bound(const PartialPlan& kept, const PartialPlan& dropped, const Comparison& by) {
  if (by.bytes && kept.bytes > dropped.bytes) {
    return std::numeric_limits<double>::infinity();
  }
  return kept.seconds - dropped.seconds +
         advantage(dropped.forward, kept.forward, by.forward, by.forward_turns) +
         advantage(dropped.backward, kept.backward, by.backward, by.backward_turns);
}

void prune(std::vector<PartialPlan>& plans, size_t width, const Comparison& by) {
  if (plans.size() <= 1) {
    return;
  }
  drop_dominated(plans, by);
  if (width > 0 && plans.size() > width) {
    keep_few(plans, width, by);
  }
}

}  // namespace hidup
