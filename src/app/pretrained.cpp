#include "app/pretrained.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "app/machine.h"
#include "app/planning.h"
#include "comm/communicator.h"
#include "core/check.h"
#include "deck/data_deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "program/lower.h"
#include "program/verify.h"
#include "search/named/named_strategies.h"
#include "train/not_finite.h"
#include "train/workload.h"

namespace hidup {
namespace {

// Keeps the batch of a graph, which its file fixes.
Deck with_one_sequence(Deck deck) {
  if (deck.model->graph.empty()) {
    deck.train->batch = 1;
    deck.model->moe.capacity_factor.reset();
  }
  return deck;
}

void check_causal(const Graph& graph) {
  for (const Op& op : graph.ops()) {
    const auto* attention = std::get_if<AttentionAttributes>(&op.attributes);
    if (attention != nullptr && !attention->causal) {
      fail(ExitCode::usage,
           "{} is not causal: a model whose positions see those behind them cannot go on a text",
           graph.tensor(op.output).name);
    }
  }
}

}  // namespace

Deck with_vocab_of(const CheckpointFile& checkpoint, Deck deck) {
  return deck.model->vocab ? std::move(deck)
                           : with_vocab(std::move(deck), deck_of(checkpoint).model->vocab.value());
}

std::vector<StoredParameter> stored_parameters(const CheckpointFile& checkpoint, const Deck& deck) {
  std::optional<Graph> graph;
  try {
    graph.emplace(make_graph(deck, checkpoint.state().graph, deck.model->vocab.value()));
  } catch (const Error& error) {
    fail(ExitCode::file, "{}: its model cannot be built: {}", checkpoint.path(), error.what());
  }
  return parameters_of(checkpoint, *graph);
}

LanguageModel::LanguageModel(Deck deck, const std::string& graph, const CheckpointFile& checkpoint)
    : path_(checkpoint.path()),
      deck_(with_vocab_of(checkpoint, std::move(deck))),
      self_(make_self_communicator()),
      device_(make_device({})) {
  if (deck_.data->kind == "images") {
    fail_at(deck_, "data.kind", "data.kind images: a model of images cannot go on a text");
  }
  const std::vector<std::string>& words = checkpoint.state().vocabulary;
  check_resumable(checkpoint, {deck_, graph, words});
  const int64_t vocab = deck_.model->vocab.value();
  tokenizer_.emplace(*deck_.data, vocab, words);
  const Graph model = make_graph(with_one_sequence(deck_), graph, vocab);
  check_causal(model);
  const Mesh mesh = {{"ranks", 1}};
  program_ = lower_forward(model, named_strategy("dp", model, mesh), lowering_options(deck_),
                           {.keep_logits = true});
  const MemoryPlan plan = plan_memory(program_, 0);
  verify(program_, plan);
  groups_.emplace(*self_, mesh);
  const PlannedProgram planned{program_, plan};
  store_.emplace(std::span(&planned, 1), *device_, *groups_, compute_threads(deck_, *self_, ""));
  executor_.emplace(program_, plan, *store_, 0, checkpoint.state().seed);
  restore(*self_, *executor_, checkpoint);
  const auto empty = [&](const std::vector<ValueId>& values, int32_t token) {
    std::vector<std::vector<int32_t>> parts;
    parts.reserve(values.size());
    for (const ValueId id : values) {
      parts.emplace_back(static_cast<size_t>(elements(program_.value(id).shape)), token);
    }
    return parts;
  };
  inputs_ = {.tokens = empty(program_.tokens, 0),
             .targets = empty(program_.targets, -1),
             .choices = choices_of(program_, 0, with_one_sequence(deck_), 1)};
}

std::vector<float> LanguageModel::next(std::span<const int32_t> text) {
  const Shape& shape = program_.value(program_.logits).shape;  // [batch, sequence, vocab]
  const auto seen = std::min(text.size(), static_cast<size_t>(shape[1]));
  check(seen > 0, "a text without a token");
  for (std::vector<int32_t>& tokens : inputs_.tokens) {
    std::ranges::copy(text.last(seen), tokens.begin());
  }
  executor_->start(1, 0.0, inputs_);
  executor_->wait();
  std::vector<float> logits(static_cast<size_t>(shape[2]));
  executor_->read(program_.logits, static_cast<int64_t>(seen - 1) * shape[2], shape[2],
                  std::as_writable_bytes(std::span(logits)).data());
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) {
    fail_not_finite(*executor_, *self_, 1, 0.0, inputs_,
                    fmt::format("{}: the logits of the next token are not finite", path_));
  }
  return logits;
}

int32_t sample(std::span<const float> logits, const Sampling& sampling, double uniform) {
  const auto all = static_cast<int64_t>(logits.size());
  const int64_t wanted = sampling.temperature == 0.0 ? 1 : sampling.top_k;
  const int64_t count = wanted == 0 ? all : std::min(wanted, all);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int32_t token) { return logits[static_cast<size_t>(token)]; };
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int32_t a, int32_t b) {
    return logit(a) > logit(b) || (logit(a) == logit(b) && a < b);
  });
  if (count == 1) {
    return order[0];
  }
  std::vector<double> up_to;  // sums of the weights of the tokens in this order
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const double above = static_cast<double>(logit(order[static_cast<size_t>(i)])) -
                         static_cast<double>(logit(order[0]));
    sum += std::exp(above / sampling.temperature);
    up_to.push_back(sum);
  }
  const auto chosen = std::ranges::upper_bound(up_to, uniform * sum) - up_to.begin();
  return order[static_cast<size_t>(std::min<int64_t>(chosen, count - 1))];
}

}  // namespace hidup
