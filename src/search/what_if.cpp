#include "search/what_if.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/name_pattern.h"
#include "search/by_axes.h"
#include "search/parallel.h"

namespace hidup {
namespace {

// One change, and what a search for it rests on.
struct PricedChange {
  WhatIf found;
  Mesh mesh;
  std::optional<size_t> twice_as_fast;
  SearchOptions options;
  bool keeps_the_best = true;  // the best strategy of now stays possible, and takes no longer
};

// What the hints say alike of operations or parameters of one pattern.
struct AlikeHints {
  std::string text;
  std::vector<size_t> places;  // in Hints::ops or Hints::parameters
};

void add(std::vector<AlikeHints>& all, std::string text, size_t place) {
  auto alike = std::ranges::find(all, text, &AlikeHints::text);
  if (alike == all.end()) {
    alike = all.insert(alike, {.text = std::move(text), .places = {}});
  }
  alike->places.push_back(place);
}

class Changes {
 public:
  Changes(const Graph& graph, const Mesh& mesh, const SearchOptions& options)
      : graph_(graph), mesh_(mesh), options_(options) {}

  std::vector<PricedChange> list() {
    for (size_t axis = 0; axis < mesh_.size(); ++axis) {
      if (mesh_[axis].size > 1) {
        add_change("bandwidth", mesh_[axis].name,
                   fmt::format("bandwidth of axis {} x 2", mesh_[axis].name))
            .twice_as_fast = axis;
      }
    }
    if (options_.memory_limit > 0) {
      add_change("memory", "", "memory x 2").options.memory_limit *= 2;
    }
    for (size_t axis = 0; axis < mesh_.size(); ++axis) {
      more_ranks(axis);
    }
    without_microbatches();
    without_operations();
    without_parameters();
    without_recompute_and_kept();
    return std::move(changes_);
  }

 private:
  PricedChange& add_change(std::string kind, std::string of, std::string what) {
    PricedChange& change = changes_.emplace_back();
    change.found.kind = std::move(kind);
    change.found.of = std::move(of);
    change.found.what = std::move(what);
    change.mesh = mesh_;
    change.options = options_;
    return change;
  }

  void more_ranks(size_t axis) {
    PricedChange& change = add_change("ranks", mesh_[axis].name,
                                      fmt::format("ranks along axis {} x 2", mesh_[axis].name));
    change.keeps_the_best = false;
    change.mesh[axis].size *= 2;
    Hints& hints = change.options.hints;
    if (hints.empty()) {
      return;
    }
    if (!hints.mesh.at(axis).shares.empty()) {
      change.found.feasible = false;
      change.found.reason = "the hints have a share for each of its ranks";
    }
    hints.mesh[axis].size *= 2;
  }

  // The options without one hint, that `remove` takes out of the hints.
  template <typename Remove>
  void without(const std::string& text, Remove remove) {
    PricedChange& change = add_change("hint", text, fmt::format("without {}", text));
    remove(change.options.hints);
  }

  void without_microbatches() {
    if (options_.hints.microbatches) {
      without(fmt::format("{} microbatch(es)", *options_.hints.microbatches),
              [](Hints& hints) { hints.microbatches.reset(); });
    } else if (options_.microbatches.size() == 1) {
      const std::string text = fmt::format("train.microbatches {}", options_.microbatches[0]);
      add_change("hint", text, fmt::format("without {}", text)).options.microbatches =
          SearchOptions{}.microbatches;
    }
    if (options_.hints.accumulate) {
      without(fmt::format("{} group(s) of microbatches", *options_.hints.accumulate),
              [](Hints& hints) { hints.accumulate.reset(); });
    }
    if (options_.hints.defer_gradients) {
      without(*options_.hints.defer_gradients ? "gradients deferred" : "gradients not deferred",
              [](Hints& hints) { hints.defer_gradients.reset(); });
    }
  }

  void without_operations() {
    const std::vector<OperationHint>& ops = options_.hints.ops;
    for (size_t axis = 0; axis < mesh_.size(); ++axis) {
      std::vector<AlikeHints> all;
      for (size_t op = 0; op < ops.size(); ++op) {
        if (ops[op].rules[axis]) {
          const std::string along =
              mesh_.size() > 1 ? fmt::format(" along {}", mesh_[axis].name) : "";
          add(all,
              fmt::format("{} by {}{}", pattern_of(graph_.op_name(static_cast<OpId>(op))),
                          to_string(*ops[op].rules[axis]), along),
              op);
        }
      }
      for (const AlikeHints& alike : all) {
        without(alike.text, [&](Hints& hints) {
          for (const size_t op : alike.places) {
            hints.ops[op].rules[axis].reset();
          }
        });
      }
    }
  }

  // Of all operations and of all parameters at once.
  void without_recompute_and_kept() {
    if (std::ranges::any_of(options_.hints.ops,
                            [](const OperationHint& op) { return op.recompute.has_value(); })) {
      without("what is computed again", [](Hints& hints) {
        for (OperationHint& op : hints.ops) {
          op.recompute.reset();
        }
      });
    }
    if (std::ranges::any_of(options_.hints.parameters, [](const ParameterHint& parameter) {
          return parameter.kept.has_value();
        })) {
      without("how long parameters are kept", [](Hints& hints) {
        for (ParameterHint& parameter : hints.parameters) {
          parameter.kept.reset();
        }
      });
    }
  }

  void without_parameters() {
    without_layouts("stored as", &ParameterHint::storage);
    without_layouts("with optimizer state as", &ParameterHint::optimizer_state);
  }

  void without_layouts(const char* how, std::optional<Layout> ParameterHint::*layout) {
    const std::vector<ParameterHint>& parameters = options_.hints.parameters;
    std::vector<AlikeHints> all;
    for (size_t p = 0; p < parameters.size(); ++p) {
      if (const std::optional<Layout>& hint = parameters[p].*layout) {
        const std::string& name = graph_.tensor(static_cast<TensorId>(p)).name;
        add(all, fmt::format("{} {} {}", pattern_of(name), how, print_layout(*hint)), p);
      }
    }
    for (const AlikeHints& alike : all) {
      without(alike.text, [&](Hints& hints) {
        for (const size_t p : alike.places) {
          (hints.parameters[p].*layout).reset();
        }
      });
    }
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const SearchOptions& options_;
  std::vector<PricedChange> changes_;
};

// Of a step, and of all that the search compares.
struct SearchedStep {
  double seconds;
  double objective_s;
  double lower_bound_s;
};

// `share`: of the time limit.
SearchedStep search(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                    SearchOptions options, double share) {
  options.baselines = false;
  options.time_limit_s *= share;
  if (axes_in_use(mesh) > 1) {
    options.level = SearchLevel::fast;  // bounds take longer than all else there
  }
  const Mesh& searched = options.hints.empty() ? mesh : options.hints.mesh;
  const SearchOutcome found = search_strategy(graph, searched, costs, options);
  return {found.step.seconds(), found.objective_s, found.lower_bound_s};
}

void find(PricedChange& change, const Graph& graph, const CostsOf& costs_of, double share,
          SearchedStep& then) {
  WhatIf& found = change.found;
  if (!found.feasible) {
    return;
  }
  const std::optional<CostModel> costs = costs_of(change.mesh, change.twice_as_fast);
  if (!costs) {
    found.feasible = false;
    found.reason = "how long messages along it take is not known";
    return;
  }
  try {
    change.options.advice = false;
    change.options.threads = 1;  // other changes are searched for beside this one
    then = search(graph, change.mesh, *costs, change.options, share);
  } catch (const Error& error) {
    if (error.code() != ExitCode::infeasible) {
      throw;
    }
    found.feasible = false;
    found.reason = "no strategy fits in the memory";
  }
}

}  // namespace

WhatIfReport what_if(const Graph& graph, const Mesh& mesh, const SearchOptions& options,
                     const CostsOf& costs_of) {
  std::vector<PricedChange> changes = Changes(graph, mesh, options).list();
  const std::optional<CostModel> costs = costs_of(mesh, std::nullopt);
  check(costs.has_value(), "no costs of the mesh as it is");
  std::vector<SearchedStep> steps(changes.size());
  SearchedStep now{};
  const size_t searches = changes.size() + 1;
  const double share = std::min(
      1.0, static_cast<double>(options.threads) / static_cast<double>(searches + options.threads));
  in_parallel(searches, options.threads, [&](size_t c) {
    if (c == 0) {
      now = search(graph, mesh, *costs, options, share);
    } else {
      find(changes[c - 1], graph, costs_of, share, steps[c - 1]);
    }
  });
  WhatIfReport report{.now_s = now.seconds, .changes = {}};
  for (size_t c = 0; c < changes.size(); ++c) {
    WhatIf& found = changes[c].found;
    if (found.feasible) {
      const SearchedStep& then = steps[c];
      found.seconds =
          changes[c].keeps_the_best ? std::min(then.seconds, now.seconds) : then.seconds;
      found.gain = 1.0 - found.seconds / now.seconds;
      if (then.lower_bound_s > 0.0) {
        found.at_most = std::max(1.0 - then.lower_bound_s / now.objective_s, found.gain);
      }
    }
    report.changes.push_back(std::move(found));
  }
  return report;
}

}  // namespace hidup
