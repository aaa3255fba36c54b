#include "search/dp/front.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace hidup {
namespace {

void add_regret(PartialPlan& kept, const PartialPlan& dropped, double bound) {
  kept.regret = std::max(kept.regret, dropped.regret + bound);
}

// A plan's numbers for comparisons.
struct Compared {
  Compared(const PartialPlan& plan, const Comparison& by)
      : seconds(plan.seconds),
        bytes(plan.bytes),
        forward(plan.forward, by.forward),
        backward(plan.backward, by.backward) {}
  double seconds, bytes;
  Standing forward, backward;
};

double regret_bound(const Compared& kept, const Compared& dropped, const Comparison& by,
                    double most) {
  if (by.bytes && kept.bytes > dropped.bytes) {
    return std::numeric_limits<double>::infinity();
  }
  const double bound =
      kept.seconds - dropped.seconds + advantage(dropped.forward, kept.forward, by.forward_turns);
  return bound > most ? bound
                      : bound + advantage(dropped.backward, kept.backward, by.backward_turns);
}

// The undominated plans so far.
class Undominated {
 public:
  explicit Undominated(const Comparison& by) : by_(by) {}

  // Offers a plan that is no faster than those offered before.
  void offer(const PartialPlan& plan) {
    // Finds the dominating plan whose regret grows least.
    size_t best = tried_.size();
    double least = std::numeric_limits<double>::infinity();
    const Compared self(plan, by_);
    for (size_t t = 0; t < tried_.size() && least > 0.0; ++t) {
      const double bound = regret_bound(numbers_[tried_[t]], self, by_, 0.0);
      ++compared_;
      if (bound <= 0.0) {
        const double raise = std::max(0.0, plan.regret + bound - plans_[tried_[t]].regret);
        best = raise < least ? t : best;
        least = std::min(least, raise);
      }
    }
    if (best == tried_.size()) {
      tried_.push_back(static_cast<uint32_t>(plans_.size()));
      plans_.push_back(plan);
      numbers_.push_back(self);
    } else {
      plans_[tried_[best]].regret += least;
      std::rotate(tried_.begin(), tried_.begin() + static_cast<ptrdiff_t>(best),
                  tried_.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
  }
  size_t compared() const { return compared_; }
  std::vector<PartialPlan> take() { return std::move(plans_); }

 private:
  const Comparison& by_;
  std::vector<PartialPlan> plans_;
  std::vector<Compared> numbers_;  // of plans_
  std::vector<uint32_t> tried_;    // indices of plans_, the latest to dominate first
  size_t compared_ = 0;
};

// Drops dominated plans and sorts the rest by seconds. Returns the number of comparisons.
size_t drop_dominated(std::vector<PartialPlan>& plans, const Comparison& by) {
  std::vector<std::pair<double, uint32_t>> order;  // plans are large, and few remain
  order.reserve(plans.size());
  for (const PartialPlan& plan : plans) {
    order.emplace_back(plan.seconds, static_cast<uint32_t>(order.size()));
  }
  // Comparing pairs of doubles with operators checks for NaN, which takes longer.
  std::ranges::sort(order, [](const auto& a, const auto& b) {
    return a.first < b.first || (a.first == b.first && a.second < b.second);
  });
  Undominated undominated(by);
  for (const auto& [seconds, p] : order) {
    undominated.offer(plans[p]);
  }
  plans = undominated.take();
  return undominated.compared();
}

// Starts with the fastest plan and repeatedly adds the plan of the largest regret (farthest-first
// traversal: Gonzalez, Theoretical Computer Science 38, 1985).
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

// Merges plans until `width` are left, those of the least raise first.
class Merger {
 public:
  Merger(std::vector<PartialPlan>& plans, const Comparison& by)
      : plans_(plans), by_(by), merged_(plans.size()), nearest_(plans.size()) {}

  // Returns the number of pairs of plans compared.
  size_t run(size_t width) {
    for (size_t p = 0; p < plans_.size(); ++p) {
      find_nearest(p);
    }
    for (size_t left = plans_.size(); left > width; --left) {
      const size_t dropped = next();
      if (dropped == plans_.size()) {
        break;  // no plan can be raised above another one
      }
      merge(dropped);
    }
    size_t count = 0;
    for (size_t p = 0; p < plans_.size(); ++p) {
      if (!merged_[p]) {
        plans_[count++] = plans_[p];
      }
    }
    plans_.resize(count);
    std::ranges::stable_sort(plans_, {}, &PartialPlan::seconds);
    return compared_;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Nearest {
    size_t plan = 0;
    double raise = kNever;
  };

  static PartialPlan raised(PartialPlan plan, const PartialPlan& to) {
    const auto raise = [](Pass& pass, const Pass& other) {
      const double more = std::max(0.0, other.open_compute - pass.open_compute);
      pass.open_compute += more;
      pass.spare -= more;  // the idle time stays
    };
    raise(plan.forward, to.forward);
    raise(plan.backward, to.backward);
    return plan;
  }

  // Returns the seconds to raise plan a by, to have plan b's open_compute.
  static double raise_of(const PartialPlan& a, const PartialPlan& b) {
    return std::max(0.0, b.forward.open_compute - a.forward.open_compute) +
           std::max(0.0, b.backward.open_compute - a.backward.open_compute);
  }

  void find_nearest(size_t dropped) {
    nearest_[dropped] = {};
    for (size_t kept = 0; kept < plans_.size(); ++kept) {
      if (kept != dropped && !merged_[kept]) {
        offer(kept, dropped);
      }
    }
  }
  // Makes `kept` the nearest if it dominates `dropped` after a smaller raise than the present one.
  void offer(size_t kept, size_t dropped) {
    const PartialPlan& plan = plans_[kept];
    const PartialPlan& other = plans_[dropped];
    const double raise = raise_of(plan, other);
    if (plan.seconds > other.seconds || raise >= nearest_[dropped].raise) {
      return;
    }
    ++compared_;
    if (regret_bound(raised(plan, other), other, by_, 0.0) <= 0.0) {
      nearest_[dropped] = {kept, raise};
    }
  }

  size_t next() const {
    size_t best = plans_.size();
    for (size_t p = 0; p < plans_.size(); ++p) {
      if (!merged_[p] && nearest_[p].raise < kNever &&
          (best == plans_.size() || nearest_[p].raise < nearest_[best].raise)) {
        best = p;
      }
    }
    return best;
  }

  void merge(size_t dropped) {
    const size_t kept = nearest_[dropped].plan;
    plans_[kept] = raised(plans_[kept], plans_[dropped]);
    add_regret(plans_[kept], plans_[dropped], regret_bound(plans_[kept], plans_[dropped], by_));
    merged_[dropped] = true;
    for (size_t p = 0; p < plans_.size(); ++p) {
      if (merged_[p]) {
        continue;
      }
      const size_t nearest = nearest_[p].plan;
      if (p == kept || nearest == kept || nearest == dropped) {
        find_nearest(p);
      } else {
        offer(kept, p);
      }
    }
  }

  std::vector<PartialPlan>& plans_;
  const Comparison& by_;
  std::vector<bool> merged_;
  std::vector<Nearest> nearest_;  // the best plan to replace each plan
  size_t compared_ = 0;
};

}  // namespace

double regret_bound(const PartialPlan& kept, const PartialPlan& dropped, const Comparison& by,
                    double most) {
  return regret_bound(Compared(kept, by), Compared(dropped, by), by, most);
}

size_t prune(std::vector<PartialPlan>& plans, size_t width, const Comparison& by) {
  if (plans.size() <= 1) {
    return 0;
  }
  size_t compared = drop_dominated(plans, by);
  if (width > 0 && plans.size() > width) {
    compared += width * plans.size();
    keep_few(plans, width, by);
  }
  return compared;
}

size_t prune_for_bound(std::vector<PartialPlan>& plans, size_t width, const Comparison& by) {
  size_t compared = prune(plans, 0, by);
  if (plans.size() > width) {
    compared += Merger(plans, by).run(width);
  }
  return compared + prune(plans, width, by);
}

}  // namespace hidup
