#include "app/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/name_pattern.h"
#include "graph/batch.h"
#include "search/memory_limit.h"

namespace hidup {
namespace {

constexpr int kMostMicrobatches = 16;  // larger programs take long to plan

ChangedRun same_run(const PlannedRun& run, std::string what) {
  return {.what = std::move(what), .mesh = run.mesh, .options = run.options};
}

// Multiplies the ranks along an axis, as if all devices were alike. The hints must not have a share
// for each rank of the axis.
ChangedRun with_ranks(const PlannedRun& run, size_t axis, int64_t factor, std::string what) {
  ChangedRun more = same_run(run, std::move(what));
  more.mesh[axis].size *= factor;
  more.options.memory_of_ranks.clear();
  if (!more.options.hints.empty()) {
    more.options.hints.mesh.at(axis).size *= factor;
  }
  for (Mesh* mesh : {&more.mesh, &more.options.hints.mesh}) {
    for (Axis& each : *mesh) {
      each.paces.clear();
    }
  }
  more.distance = static_cast<double>(factor);
  return more;
}

// One hint for all operations, or parameters, of a pattern.
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

class SingleChanges {
 public:
  explicit SingleChanges(const PlannedRun& run) : run_(run), hints_(run.options.hints) {}

  std::vector<Change> list() {
    const Mesh& mesh = run_.mesh;
    for (size_t axis = 0; axis < mesh.size(); ++axis) {
      if (mesh[axis].size > 1) {
        add_change("bandwidth", mesh[axis].name,
                   fmt::format("bandwidth of axis {} x 2", mesh[axis].name),
                   [axis](ChangedRun& changed) { changed.twice_as_fast = axis; });
      }
    }
    if (run_.options.memory_limit > 0) {
      add_change("memory", "", "memory x 2", [](ChangedRun& changed) {
        changed.options.memory_limit *= 2;
        for (int64_t& limit : changed.options.memory_of_ranks) {
          limit *= 2;
        }
      });
    }
    for (size_t axis = 0; axis < mesh.size(); ++axis) {
      more_ranks(axis);
    }
    shorter_gradients();
    without_microbatches();
    without_operations();
    without_memory_choices();
    return std::move(changes_);
  }

 private:
  void add_change(std::string kind, std::string of, std::string what,
                  std::function<void(ChangedRun&)> change) {
    changes_.push_back(
        {.kind = std::move(kind),
         .of = std::move(of),
         .variant = [run = run_, what = std::move(what), change = std::move(change)](int64_t) {
           ChangedRun changed = same_run(run, what);
           change(changed);
           return changed;
         }});
  }

  void more_ranks(size_t axis) {
    const std::string& name = run_.mesh[axis].name;
    Change change{.kind = "ranks",
                  .of = name,
                  .keeps_the_best = false,
                  .variant = [run = run_, axis, name](int64_t) {
                    return with_ranks(run, axis, 2, fmt::format("ranks along axis {} x 2", name));
                  }};
    if (!hints_.empty() && !hints_.mesh.at(axis).shares.empty()) {
      change.obstacle = "the hints have a share for each of its ranks";
    } else if (!run_.ranks.all_alike()) {
      change.obstacle = "cluster.devices does not say which devices they have";
    }
    changes_.push_back(std::move(change));
  }

  // Adds the run whose gradients travel in bf16. Its messages differ, so they may take longer.
  void shorter_gradients() {
    if (run_.options.lowering.gradients_as != DType::f32 || ranks_of(run_.mesh) == 1) {
      return;
    }
    add_change("gradients", "", "train.gradients bf16",
               [](ChangedRun& changed) { changed.options.lowering.gradients_as = DType::bf16; });
    changes_.back().keeps_the_best = false;
    changes_.back().reprices_the_best = true;
  }

  // Adds the run without one hint, which `remove` takes out.
  void without(const std::string& text, std::function<void(Hints&)> remove) {
    add_change("hint", text, fmt::format("without {}", text),
               [remove = std::move(remove)](ChangedRun& free) { remove(free.options.hints); });
  }

  void without_microbatches() {
    if (hints_.microbatches) {
      without(fmt::format("{} microbatch(es)", *hints_.microbatches),
              [](Hints& hints) { hints.microbatches.reset(); });
    } else if (run_.options.microbatches.size() == 1) {
      const std::string text = fmt::format("train.microbatches {}", run_.options.microbatches[0]);
      add_change("hint", text, fmt::format("without {}", text), [](ChangedRun& free) {
        free.options.microbatches = SearchOptions{}.microbatches;
      });
    }
    if (hints_.accumulate) {
      without(fmt::format("{} group(s) of microbatches", *hints_.accumulate),
              [](Hints& hints) { hints.accumulate.reset(); });
    }
    if (hints_.defer_gradients) {
      without(*hints_.defer_gradients ? "gradients deferred" : "gradients not deferred",
              [](Hints& hints) { hints.defer_gradients.reset(); });
    }
  }

  void without_operations() {
    for (size_t axis = 0; axis < run_.mesh.size(); ++axis) {
      const std::string along =
          run_.mesh.size() > 1 ? fmt::format(" along {}", run_.mesh[axis].name) : "";
      std::vector<AlikeHints> all;
      for (size_t op = 0; op < hints_.ops.size(); ++op) {
        if (const std::optional<Rule>& rule = hints_.ops[op].rules[axis]) {
          const std::string name = pattern_of(run_.graph.op_name(static_cast<OpId>(op)));
          add(all, fmt::format("{} by {}{}", name, to_string(*rule), along), op);
        }
      }
      for (const AlikeHints& alike : all) {
        without(alike.text, [axis, places = alike.places](Hints& hints) {
          for (const size_t op : places) {
            hints.ops[op].rules[axis].reset();
          }
        });
      }
    }
    without_layouts("stored as", &ParameterHint::storage);
    without_layouts("with optimizer state as", &ParameterHint::optimizer_state);
  }

  void without_layouts(const char* how, std::optional<Layout> ParameterHint::*layout) {
    std::vector<AlikeHints> all;
    for (size_t p = 0; p < hints_.parameters.size(); ++p) {
      if (const std::optional<Layout>& hint = hints_.parameters[p].*layout) {
        const std::string& name = run_.graph.tensor(static_cast<TensorId>(p)).name;
        add(all, fmt::format("{} {} {}", pattern_of(name), how, print_layout(*hint)), p);
      }
    }
    for (const AlikeHints& alike : all) {
      without(alike.text, [layout, places = alike.places](Hints& hints) {
        for (const size_t p : places) {
          (hints.parameters[p].*layout).reset();
        }
      });
    }
  }

  // Removes these hints from all operations, or all parameters, at once.
  void without_memory_choices() {
    if (std::ranges::any_of(hints_.ops,
                            [](const OperationHint& op) { return op.recompute.has_value(); })) {
      without("recompute", [](Hints& hints) {
        for (OperationHint& op : hints.ops) {
          op.recompute.reset();
        }
      });
    }
    if (std::ranges::any_of(hints_.parameters, [](const ParameterHint& parameter) {
          return parameter.residency.has_value();
        })) {
      without("reshard_after_forward", [](Hints& hints) {
        for (ParameterHint& parameter : hints.parameters) {
          parameter.residency.reset();
        }
      });
    }
  }

  const PlannedRun& run_;
  const Hints& hints_;
  std::vector<Change> changes_;
};

Change without_hints(const PlannedRun& run) {
  return {.kind = "hint", .variants = run.options.hints.empty() ? 0 : 1, .variant = [run](int64_t) {
            ChangedRun free = same_run(run, "without the hints it fits");
            free.options.hints = {};
            return free;
          }};
}

Change smaller_batch(const PlannedRun& run) {
  const int64_t batch = splittable_batch(run.graph);
  const int64_t least =
      run.options.hints.microbatches.value_or(std::ranges::min(run.options.microbatches));
  return {.kind = "batch",
          .variants = std::max<int64_t>(batch - least, 0),
          .variant = [run, batch](int64_t v) {
            const int64_t fewer = batch - 1 - v;
            ChangedRun smaller =
                same_run(run, fmt::format("train.batch {} instead of {} fits", fewer, batch));
            smaller.graph = with_batch(run.graph, fewer);
            smaller.distance = static_cast<double>(batch) / static_cast<double>(fewer);
            return smaller;
          }};
}

Change more_microbatches(const PlannedRun& run) {
  const int now = std::ranges::max(microbatches_of(run.graph, run.options));
  const int64_t most = std::min<int64_t>(splittable_batch(run.graph), kMostMicrobatches) / now;
  const bool free = !run.options.hints.microbatches && most >= 2;
  return {.kind = "microbatches",
          .variants = free ? static_cast<int64_t>(std::log2(most)) : 0,
          .variant = [run, now](int64_t v) {
            const int count = now << (v + 1);
            ChangedRun more = same_run(run, fmt::format("train.microbatches {} fits", count));
            more.options.microbatches = {count};
            more.distance = std::exp2(v + 1);
            return more;
          }};
}

Change fewer_bits(const PlannedRun& run) {
  const bool has_more = std::ranges::any_of(run.graph.tensors(), [](const Tensor& tensor) {
    return tensor.role == Tensor::Role::parameter && tensor.dtype == DType::f32;
  });
  return {.kind = "precision", .variants = has_more ? 1 : 0, .variant = [run](int64_t) {
            ChangedRun shorter = same_run(run, "model.precision bf16 fits");
            shorter.graph = with_precision(run.graph, DType::bf16);
            shorter.distance = 2.0;
            return shorter;
          }};
}

Change more_ranks(const PlannedRun& run) {
  const Axis& axis = run.mesh[0];
  return {.kind = "ranks",
          .of = axis.name,
          .variants = axis.shares.empty() ? static_cast<int64_t>(std::log2(kMoreRanks)) : 0,
          .variant = [run](int64_t v) {
            const Axis& outermost = run.mesh[0];
            const int64_t factor = int64_t{2} << v;
            const int64_t ranks = ranks_of(run.mesh);
            return with_ranks(
                run, 0, factor,
                fmt::format("{} ranks instead of {} (axis {}: {}) fit", factor * ranks, ranks,
                            outermost.name, factor * outermost.size));
          }};
}

}  // namespace

std::vector<Change> single_changes(const PlannedRun& run) {
  return SingleChanges(run).list();
}

std::vector<Change> saving_changes(const PlannedRun& run) {
  return {without_hints(run), smaller_batch(run), more_microbatches(run), fewer_bits(run),
          more_ranks(run)};
}

std::optional<SearchOutcome> search_changed(const PlannedRun& run, const ChangedRun& changed,
                                            const ChangedCosts& costs) {
  SearchOptions options = changed.options;
  options.baselines = false;
  options.threads = 1;
  SearchResult result = search_strategy(changed.graph ? *changed.graph : run.graph, changed.mesh,
                                        costs.searched, options, &costs.ranks);
  SearchOutcome* const found = std::get_if<SearchOutcome>(&result);
  return found != nullptr ? std::optional(std::move(*found)) : std::nullopt;
}

}  // namespace hidup
