#include "train/persistent.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "comm/collective.h"
#include "core/check.h"
#include "core/convert.h"
#include "core/images.h"
#include "core/text.h"
#include "deck/data_deck.h"
#include "deck/model_deck.h"

namespace hidup {
namespace {

bool is_persistent(const Value& value) {
  return value.role == Value::Role::parameter || value.role == Value::Role::optimizer_state;
}

constexpr std::string_view kParameters = "parameters/";

// Returns "parameters/NAME" for a parameter, else "optimizer/NAME.m" and so on.
std::string tensor_name(const Value& value) {
  const bool parameter = value.role == Value::Role::parameter;
  return (parameter ? std::string(kParameters) : "optimizer/") + value.name;
}
std::string master_name(std::string_view parameter) {
  return fmt::format("optimizer/{}.master", parameter);
}

using TensorIndex = std::map<std::string, size_t, std::less<>>;

TensorIndex index_of(const CheckpointFile& checkpoint) {
  TensorIndex index;
  for (size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    index[checkpoint.tensors()[i].name] = i;
  }
  return index;
}

// Throws if the tensor does not fit the model's shape or is not of a floating type.
void check_tensor(const CheckpointFile& checkpoint, const StoredTensor& tensor,
                  const Shape& shape) {
  if (tensor.shape != shape || tensor.dtype == DType::i32) {
    fail(ExitCode::file, "{}: {} is {}{}, expected a floating type and {}", checkpoint.path(),
         tensor.name, name_of(tensor.dtype), to_string(tensor.shape), to_string(shape));
  }
}

// Returns the tensor from which to make the value: one of its name and type, else, for a parameter
// or its master, the more exact of the two.
size_t source_of(const Program& program, const Value& value, const CheckpointFile& checkpoint,
                 const TensorIndex& index) {
  const bool parameter = value.role == Value::Role::parameter;
  std::vector<std::string> names = {tensor_name(value)};
  if (parameter || value.master_of >= 0) {
    const std::string& name = parameter ? value.name : program.value(value.master_of).name;
    names.push_back(master_name(name));
    names.push_back(std::string(kParameters) + name);
  }
  for (const bool same_type : {true, false}) {
    for (const std::string& name : names) {
      const auto found = index.find(name);
      if (found == index.end()) {
        continue;
      }
      const StoredTensor& tensor = checkpoint.tensors()[found->second];
      check_tensor(checkpoint, tensor, value.shape);
      const bool exact = tensor.dtype == value.dtype || name.starts_with("optimizer/");
      if (!same_type || exact) {
        return found->second;
      }
    }
  }
  fail(ExitCode::file, "{}: has no {}", checkpoint.path(), names[0]);
}

// Returns true if a resumed run may change the key. Other model keys make it another model.
bool may_change(std::string_view key) {
  return !key.starts_with("model.") || key == "model.precision" || key == "model.dropout" ||
         key == "model.graph";  // a path: the graph itself is compared
}

}  // namespace

PersistentValues persistent_values(const Program& program, int64_t rank) {
  PersistentValues persistent;
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& value = program.value(id);
    if (is_persistent(value)) {
      persistent.values.push_back(id);
      persistent.tensors.push_back({tensor_name(value), value.dtype, value.shape});
      persistent.regions.push_back(program.region(id, rank));
    }
  }
  return persistent;
}

void restore(Communicator& world, Executor& executor, const CheckpointFile& checkpoint) {
  const Program& program = executor.program();
  const PersistentValues persistent = persistent_values(program, world.rank());
  std::vector<size_t> sources;
  collectively(world, [&] {
    const TensorIndex index = index_of(checkpoint);
    for (const ValueId id : persistent.values) {
      sources.push_back(source_of(program, program.value(id), checkpoint, index));
    }
  });
  // Reads in portions that all ranks cut alike, so that host memory holds one at a time.
  constexpr int64_t kPortion = int64_t{256} << 20;  // bytes, global
  for (size_t first = 0; first < sources.size();) {
    std::vector<BoxRequest> requests;
    std::vector<std::vector<std::byte>> parts;
    int64_t bytes = 0;
    size_t end = first;
    for (; end < sources.size() && bytes < kPortion; ++end) {
      const StoredTensor& tensor = checkpoint.tensors()[sources[end]];
      const auto size = static_cast<size_t>(size_of(tensor.dtype));
      bytes += elements(tensor.shape) * size_of(tensor.dtype);
      parts.emplace_back(static_cast<size_t>(persistent.regions[end].elements()) * size);
    }
    for (size_t i = first; i < end; ++i) {
      requests.push_back({sources[i], persistent.regions[i], parts[i - first].data()});
    }
    read_boxes(world, checkpoint, requests);
    for (size_t i = first; i < end; ++i) {
      const DType from = checkpoint.tensors()[sources[i]].dtype;
      const DType to = program.value(persistent.values[i]).dtype;
      executor.write(persistent.values[i], 0, persistent.regions[i].elements(),
                     converted(std::move(parts[i - first]), from, to).data());
    }
    first = end;
  }
}

std::vector<StoredParameter> parameters_of(const CheckpointFile& checkpoint, const Graph& graph) {
  std::map<std::string, Shape> missing;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Tensor::Role::parameter) {
      missing[tensor.name] = tensor.shape;
    }
  }
  const TensorIndex index = index_of(checkpoint);
  std::vector<StoredParameter> parameters;
  for (size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    const std::string& tensor = checkpoint.tensors()[i].name;
    if (!tensor.starts_with(kParameters)) {
      continue;
    }
    const std::string name = tensor.substr(kParameters.size());
    const auto wanted = missing.extract(name);
    if (wanted.empty()) {
      fail(ExitCode::file, "{}: has {}, which its model lacks", checkpoint.path(), shown(tensor));
    }
    const auto master = index.find(master_name(name));
    parameters.push_back({name, master == index.end() ? i : master->second});
    check_tensor(checkpoint, checkpoint.tensors()[parameters.back().tensor], wanted.mapped());
  }
  if (!missing.empty()) {
    fail(ExitCode::file, "{}: has no {}{}", checkpoint.path(), kParameters, missing.begin()->first);
  }
  return parameters;
}

Deck deck_of(const CheckpointFile& checkpoint) {
  const std::string name = checkpoint.path() + ", /state/resolved";
  Deck deck = parse_resolved(name, checkpoint.state().resolved);
  if (deck.data->kind == "images") {
    return with_vocab(std::move(deck), kImageClasses);
  }
  if (!deck.model->vocab) {
    fail(ExitCode::file, "{}: model.vocab: expected a number", name);
  }
  return deck;
}

void restore_scale(const CheckpointFile& checkpoint, kernels::StepState& state) {
  const TrainingState& saved = checkpoint.state();
  state.skipped = static_cast<uint64_t>(saved.skipped);
  const bool adapted = std::ranges::find(checkpoint.tensors(), DType::f16, &StoredTensor::dtype) !=
                       checkpoint.tensors().end();
  if (adapted && state.adapts && saved.loss_scale > 0.0) {
    state.loss_scale = static_cast<float>(saved.loss_scale);
    state.good_steps = saved.loss_scale_good_steps;
  }
}

std::string check_resumable(const CheckpointFile& checkpoint, const ResumedRun& run) {
  const TrainingState& state = checkpoint.state();
  std::vector<std::string> refused;
  std::string changed;
  const std::string then = resolved_yaml(deck_of(checkpoint));
  for (const ChangedKey& key : changed_keys(then, resolved_yaml(run.deck))) {
    const bool optimizer = key.key == "train.optimizer";
    const std::string text = fmt::format("{}: {} -> {}", key.key, key.before, key.now);
    if (optimizer || key.key == "data.tokenizer" || !may_change(key.key)) {
      refused.push_back(text);
    } else if (!key.key.starts_with("cluster.") && !key.key.starts_with("train.checkpoint.")) {
      changed += (changed.empty() ? "" : ", ") + text;
    }
  }
  if (run.data_hash != 0 && run.data_hash != state.data_hash) {
    changed += std::string(changed.empty() ? "" : ", ") + "what the data files hold";
  }
  if (state.graph != run.graph) {
    refused.push_back("model.graph: another graph");
  }
  const auto [before, after] = std::ranges::mismatch(state.vocabulary, run.vocabulary);
  if (before != state.vocabulary.end() || after != run.vocabulary.end()) {
    const auto word = [](const auto& at, const auto& words) {
      return at == words.end() ? std::string("nothing") : shown(*at);
    };
    refused.push_back(fmt::format("the vocabulary: {} words -> {}, word {} was {}, is {}",
                                  state.vocabulary.size(), run.vocabulary.size(),
                                  before - state.vocabulary.begin(), word(before, state.vocabulary),
                                  word(after, run.vocabulary)));
  }
  if (!refused.empty()) {
    fail(ExitCode::usage, "{}: cannot go on from it, because these differ: {}", checkpoint.path(),
         fmt::join(refused, "; "));
  }
  return changed;
}

}  // namespace hidup
