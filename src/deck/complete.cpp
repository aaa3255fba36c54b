#include "deck/complete.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "core/images.h"
#include "core/limits.h"
#include "deck/checks.h"
#include "deck/cluster_deck.h"
#include "deck/data_deck.h"
#include "deck/key_names.h"
#include "deck/keys.h"
#include "deck/model_deck.h"
#include "deck/values.h"

namespace hidup {
namespace {

// Completes and judges decks whose keys are read, and collects their problems.
class Completion {
 public:
  Completion(Deck& deck, KeyPlaces& places, Problems& problems)
      : deck_(deck), places_(places), problems_(problems) {}

  void run(const PerRank& per_rank, std::optional<int64_t> ranks) {
    multiply_by_ranks(per_rank, ranks ? ranks : ranks_of_mesh());
    for (const auto& [file, origin] : places_.decks()) {
      if (origin.line > 0) {  // a deck: overrides alone need not be complete
        report_missing(file);
        report_misplaced(file);
      }
    }
    for (const Key& key : keys()) {
      if (key.derived != nullptr && !places_.is_given(key.name)) {
        *std::get<int64_t*>(key.slot(deck_, {})) = key.derived(deck_);
      }
    }
    if (deck_.data->kind == "images") {
      deck_.model->sequence = kImagePositions;
    }
    check_relations(deck_, {[this](std::string_view name) { return usable(name); },
                            [this](std::string_view name, const std::string& message) {
                              report(places_.where(name), message);
                            }});
  }

 private:
  void report(const Position& position, const std::string& message) {
    problems_.add(position, message);
  }

  void refuse(const std::string& name, const std::string& message) {
    places_.refuse(name);
    report(places_.where(name), message);
  }

  // Returns true if the value is set (by the deck, an override or a default) and has no problem,
  // and the key has a place in the deck.
  bool usable(std::string_view name) const {
    const Key* key = find_key(record_name(name));
    check(key != nullptr, "no key {}", name);
    const bool has_deck = places_.has_deck(file_of(section_of(name)).value());
    const bool has_value = !key->fallback.empty() || places_.is_given(std::string(name));
    return has_deck && has_value && !places_.is_refused(name) && has_place(*key);
  }

  bool has_place(const Key& key) const {
    return std::all_of(key.conditions.begin(), key.conditions.end(), [&](const Condition& on) {
      return !places_.is_refused(on.key) && on.holds(deck_);
    });
  }

  // Reports keys that are given although a condition does not hold. Where the key of the condition
  // has a problem itself, only that problem is reported.
  void report_misplaced(DeckFile file) {
    for (const Key& key : keys()) {
      const Condition* failed = failed_condition(key, deck_);
      if (file_of(section_of(key.name)) == file && places_.is_given(key.name) &&
          failed != nullptr && !places_.is_refused(failed->key)) {
        report(places_.where(key.name), fmt::format("{} {}", key.name, failed->otherwise));
      }
    }
  }

  void report_missing(DeckFile file) {
    for (const Key& key : keys()) {
      const bool required = key.fallback.empty() && !is_of_item(key.name);
      if (required && file_of(section_of(key.name)) == file && !places_.is_given(key.name) &&
          !places_.is_refused(key.name) && has_place(key)) {
        report(places_.where(key.name), missing_key(key, key.name));
      }
    }
  }

  // Multiplies values per rank by the ranks, after all keys are read, also those of the mesh.
  void multiply_by_ranks(const PerRank& per_rank, std::optional<int64_t> ranks) {
    for (const auto& [name, text] : per_rank) {
      const Key& key = *find_key(name);
      int64_t& value = *std::get<int64_t*>(key.slot(deck_, {}));
      if (places_.is_refused(name) || (!ranks && places_.is_refused("cluster.mesh"))) {
        places_.refuse(name);
      } else if (!ranks) {
        refuse(name,
               fmt::format("{} is {}, but the number of ranks is not known: give it with --ranks, "
                           "or write a number",
                           name, text));
      } else if (!in_range(static_cast<double>(value) * static_cast<double>(*ranks), key.range)) {
        refuse(name, fmt::format("{}: expected {}, found {}, which is {} on {} rank(s)", name,
                                 allowed_values(key), text, value * *ranks, *ranks));
      } else {
        value *= *ranks;
      }
    }
  }

  // Returns the ranks of a mesh without an axis of size auto.
  std::optional<int64_t> ranks_of_mesh() const {
    if (!places_.has_deck(DeckFile::cluster) || places_.is_refused("cluster.mesh")) {
      return std::nullopt;
    }
    int64_t ranks = 1;
    for (const MeshAxis& axis : deck_.cluster->mesh) {
      if (!axis.size || *axis.size > kMaxRanks / ranks) {
        return std::nullopt;
      }
      ranks *= *axis.size;
    }
    return ranks;
  }

  Deck& deck_;
  KeyPlaces& places_;
  Problems& problems_;
};

}  // namespace

void complete_decks(Deck& deck, const PerRank& per_rank, std::optional<int64_t> ranks,
                    KeyPlaces& places, Problems& problems) {
  Completion(deck, places, problems).run(per_rank, ranks);
}

const MeshAxis& axis_of(const ClusterDeck& cluster, std::string_view name) {
  const auto axis = std::ranges::find(cluster.mesh, name, &MeshAxis::name);
  check(axis != cluster.mesh.end(), "the deck's mesh has no axis {}", name);
  return *axis;
}

std::string missing_key(const Key& key, const std::string& name) {
  return fmt::format("{} is missing: expected {}", name, allowed_values(key));
}

}  // namespace hidup
