#include "app/initial.h"

#include <fmt/format.h>

#include "core/check.h"
#include "core/convert.h"
#include "core/text.h"
#include "deck/model_deck.h"
#include "interchange/config.h"
#include "train/persistent.h"

namespace hidup {

void check_names(const std::string& names) {
  if (names.empty() || find_name_map(names) != nullptr) {
    return;
  }
  const std::vector<std::string> known = name_maps();
  const std::string hint = nearest(names, known);
  fail(ExitCode::usage, "--names {}: expected one of {}{}", shown(names), fmt::join(known, ", "),
       hint.empty() ? "" : "; did you mean " + hint + "?");
}

bool fits_family(const NameMap& names, const Deck& deck) {
  return names.family.empty() || (deck.model->graph.empty() && names.family == deck.model->family);
}

bool fits_model(const NameMap& names, const Deck& deck) {
  const MoeDeck& moe = deck.model->moe;
  const bool plain = moe.shared_experts == 0 && moe.first_dense == 0 && !moe.balance_speed &&
                     moe.score != "sigmoid" && moe.normalize != "off" && moe.choices() > 1 &&
                     moe.routed_scaling == 1.0;
  const std::string_view wanted = moe.experts == 0 ? "llama"
                                  : moe.every > 1  ? ""
                                  : plain          ? "mixtral"
                                                   : "deepseek";
  return fits_family(names, deck) && (names.family != "llama" || names.name == wanted);
}

void check_family(const NameMap& names, const Deck& deck) {
  if (!fits_family(names, deck)) {
    fail(ExitCode::usage, "the names of {} are for the family {}, but the model is of {}",
         names.name, names.family, deck.model->graph.empty() ? deck.model->family : "a graph file");
  }
}

InitialModel::InitialModel(const std::string& path, const std::string& names, const Deck& deck,
                           const Graph& graph, int64_t vocab)
    : files_(path), names_(names.empty() ? &guess_names(files_) : find_name_map(names)) {
  check(names_ != nullptr, "no names {}", names);
  check_family(*names_, deck);
  check_config(files_.folder(), *names_, deck, vocab);
  sources_ = find_sources(files_, *names_, graph);
}

void InitialModel::load(Executor& executor, int64_t rank) const {
  executor.initialize_parameters();
  const Program& program = executor.program();
  const PersistentValues persistent = persistent_values(program, rank);
  for (size_t i = 0; i < persistent.values.size(); ++i) {
    const Value& value = program.value(persistent.values[i]);
    const bool parameter = value.role == Value::Role::parameter;
    if (!parameter && value.master_of < 0) {
      continue;
    }
    const TensorSource& source =
        sources_.at(parameter ? value.name : program.value(value.master_of).name);
    executor.write(
        persistent.values[i], 0, persistent.regions[i].elements(),
        converted(read_box(source, persistent.regions[i]), source.dtype(), value.dtype).data());
  }
}

}  // namespace hidup
