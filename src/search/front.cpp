#include "search/front.h"

#include <algorithm>
#include <limits>

namespace hidup {
namespace {

void stand_for(Member& kept, const Member& dropped, double missing) {
  kept.under = std::max(kept.under, dropped.under + missing);
}

// The members that no other one dominates, in the order of seconds.
void drop_dominated(std::vector<Member>& members, const Comparison& by) {
  std::ranges::stable_sort(members, {}, &Member::seconds);
  size_t kept = 0;
  for (size_t m = 0; m < members.size(); ++m) {
    bool dominated = false;
    for (size_t k = 0; k < kept && !dominated; ++k) {
      const double missing = deficit(members[k], members[m], by);
      dominated = missing <= 0.0;
      if (dominated) {
        stand_for(members[k], members[m], missing);
      }
    }
    if (!dominated) {
      members[kept++] = members[m];
    }
  }
  members.resize(kept);
}

// Starts with the fastest and adds, again and again, the one that those chosen stand for worst.
void choose(std::vector<Member>& members, size_t width, const Comparison& by) {
  struct Nearest {
    size_t chosen = 0;
    double missing = std::numeric_limits<double>::infinity();
    bool is_chosen = false;
  };
  std::vector<Nearest> nearest(members.size());
  const auto add = [&](size_t chosen) {
    nearest[chosen].is_chosen = true;
    for (size_t m = 0; m < members.size(); ++m) {
      const double missing = nearest[m].is_chosen ? 0.0 : deficit(members[chosen], members[m], by);
      if (!nearest[m].is_chosen && missing < nearest[m].missing) {
        nearest[m].chosen = chosen;
        nearest[m].missing = missing;
      }
    }
  };
  add(0);
  for (size_t count = 1; count < width; ++count) {
    size_t worst = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (size_t m = 0; m < members.size(); ++m) {
      if (!nearest[m].is_chosen && nearest[m].missing > most) {
        worst = m;
        most = nearest[m].missing;
      }
    }
    add(worst);
  }
  size_t kept = 0;
  for (size_t m = 0; m < members.size(); ++m) {
    if (!nearest[m].is_chosen) {
      stand_for(members[nearest[m].chosen], members[m], nearest[m].missing);
    }
  }
  for (size_t m = 0; m < members.size(); ++m) {
    if (nearest[m].is_chosen) {
      members[kept++] = members[m];
    }
  }
  members.resize(kept);
}

}  // namespace

double deficit(const Member& a, const Member& b, const Comparison& by) {
  if (by.bytes && a.bytes > b.bytes) {
    return std::numeric_limits<double>::infinity();
  }
  return a.seconds - b.seconds + advantage(b.forward, a.forward, by.forward, by.forward_turns) +
         advantage(b.backward, a.backward, by.backward, by.backward_turns);
}

void reduce(std::vector<Member>& members, size_t width, const Comparison& by) {
  if (members.size() <= 1) {
    return;
  }
  drop_dominated(members, by);
  if (width > 0 && members.size() > width) {
    choose(members, width, by);
  }
}

}  // namespace hidup
