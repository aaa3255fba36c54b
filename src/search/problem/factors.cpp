#include "search/problem/factors.h"

#include <algorithm>

namespace hidup {
namespace {

bool only_gathers_more(const Rule& with, const Rule& other) {
  return with.factors_of >= 0 && other.factors_of < 0 && with.inputs == other.inputs &&
         with.output == other.output;
}

}  // namespace

bool is_without_factors(const OpStrategy& other, const OpStrategy& with) {
  return other.rules != with.rules &&
         std::ranges::equal(with.rules, other.rules, [](const Rule& own, const Rule& its) {
           return own == its || only_gathers_more(own, its);
         });
}

bool sends_no_longer(const RuleCosts& costs, const FactorsOf& of, const OpStrategy& other,
                     const OpStrategy& with, const std::vector<ChoiceMeaning>& storages) {
  const double gathers = of.groups * (costs.factors_s(of.op, with) - costs.factors_s(of.op, other));
  return std::ranges::all_of(storages, [&](const ChoiceMeaning& stored) {
    Reshard sent;
    Reshard left;
    for (size_t p = 0; p < stored.parameters.size(); ++p) {
      const Reshard by_other = costs.sync(other, stored.inputs[p], stored.parameters[p]);
      const Reshard by_with = costs.sync(with, stored.inputs[p], stored.parameters[p]);
      sent.comm_s += by_other.comm_s;
      sent.compute_s += by_other.compute_s;
      left.comm_s += by_with.comm_s;
      left.compute_s += by_with.compute_s;
    }
    return sent.comm_s <= left.comm_s + gathers && sent.compute_s <= left.compute_s;
  });
}

}  // namespace hidup
