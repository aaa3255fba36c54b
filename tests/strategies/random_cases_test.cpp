// Random trainings against one rank: models, meshes of 1 to 7 ranks and 1 to 3 axes in any order,
// some with equal bandwidths, shares that leave ranks idle, names per axis, recomputation, groups;
// and trainings that resume under another strategy on other ranks.
//
// HIDUP_RANDOM_CASES in the environment, "FIRST LAST", selects the cases.
#include <gtest/gtest.h>

#include <numeric>

#include "app/planning.h"
#include "core/check.h"
#include "deck/cluster_deck.h"
#include "deck/deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "graph/batch.h"
#include "models/transformer.h"
#include "search/named/combination.h"
#include "search/named/named_strategies.h"
#include "sharding/memory_choices.h"
#include "strategy_cases.h"
#include "tried_training.h"

namespace hidup {
namespace {

Graph random_model(Draw& draw) {
  const auto number = [&](size_t least, size_t most) {
    return static_cast<int64_t>(least + draw.below(most - least + 1));
  };
  Deck deck;
  deck.model->family = draw.of({"bert", "gpt", "llama", "gpt", "bert"});
  deck.model->layers = number(1, 2);
  deck.model->heads = number(1, 4);
  deck.model->kv_heads = draw.below(2) == 0 ? 1 : deck.model->heads;  // only llama shares them
  deck.model->hidden = 2 * deck.model->heads * number(3, 5);
  deck.model->ffn = number(3, 16);
  deck.model->sequence = number(2, 8);
  deck.model->dropout = draw.of({0.0, 0.1});
  deck.model->tied_head = draw.of({"on", "off"});
  deck.train->batch = number(1, 9);
  if (draw.below(3) > 0) {
    MoeDeck& moe = deck.model->moe;
    moe.experts = number(1, 6);
    moe.every = number(1, 2);
    moe.router =
        moe.experts == 1 ? draw.of({"top1", "hash"}) : draw.of({"top1", "top2", "topk", "hash"});
    if (moe.router == "topk") {
      moe.top_k = number(1, static_cast<size_t>(moe.experts));
    }
    moe.normalize = draw.of({"on", "off"});
    if (draw.below(2) == 0) {
      moe.capacity_factor = draw.of({0.6, 1.25, 4.0});
    }
    moe.balance_loss = draw.of({0.0, 0.5});
    moe.balance = draw.of({"switch", "gshard"});
    moe.z_loss = draw.of({0.0, 0.2});
    moe.bias = draw.of({"on", "off"});
    moe.score = draw.of({"softmax", "sigmoid"});
    moe.routed_scaling = draw.of({1.0, 2.5});
    if (moe.router != "hash" && draw.below(2) == 0) {
      moe.balance_speed = draw.of({0.0, 0.05});
    }
    moe.shared_experts = draw.of({0, 0, 1, 2});
    if (draw.below(2) == 0) {
      moe.ffn = number(2, 9);
    }
    moe.first_dense = draw.of({0, 0, 1});
  }
  return build_model(deck, kStrategyVocab);
}

// Returns a deck's mesh: axes in any order, slow and fast ones, every second pair alike.
Mesh random_mesh(int64_t ranks, Draw& draw) {
  Deck deck;
  std::vector<int64_t> sizes;
  const size_t axes = 1 + draw.below(3);
  for (size_t axis = 0; axis < axes; ++axis) {
    const int64_t left = std::accumulate(sizes.begin(), sizes.end(), ranks, std::divides<>());
    std::vector<int64_t> divisors;
    for (int64_t size = 1; size <= left; ++size) {
      if (left % size == 0 && (axis + 1 < axes || size == left)) {
        divisors.push_back(size);
      }
    }
    sizes.push_back(divisors[draw.below(divisors.size())]);
    deck.cluster->mesh.push_back({.name = std::string(1, static_cast<char>('a' + axis)),
                                  .size = sizes.back(),
                                  .bandwidth = draw.of({1e9, 4e9, 4e9})});
  }
  return mesh_of(deck, sizes);
}

// Returns a named strategy, or one named per axis.
Strategy random_names(const Graph& graph, const Mesh& mesh, Draw& draw) {
  const std::vector<std::string_view> names = plain_names(graph, mesh);
  const auto name = [&] { return std::string(names[draw.below(names.size())]); };
  for (int tries = 0; tries < 20 && mesh.size() > 1; ++tries) {
    std::string combined;
    for (const Axis& axis : mesh) {
      combined += (combined.empty() ? "" : ",") + axis.name + "=" + name();
    }
    try {
      return combined_strategy(combined, graph, mesh);
    } catch (const Error& error) {
      check(error.code() == ExitCode::usage, "{}: {}", combined, error.what());
    }
  }
  return named_strategy(name(), graph, mesh);
}

// Moves some parameters or their states to random places.
void scatter_storages(const Graph& graph, Strategy& strategy, Draw& draw) {
  for (ParameterStrategy& parameter : strategy.parameters) {
    for (size_t axis = 0; axis < strategy.mesh.size(); ++axis) {
      for (Layout* layout : {&parameter.storage, &parameter.optimizer_state}) {
        if (draw.below(4) == 0) {
          (*layout)[axis] =
              random_storage(graph.tensor(parameter.tensor), strategy.mesh[axis], draw);
        }
      }
    }
  }
}

Strategy random_training(const Graph& graph, const Mesh& mesh, Draw& draw) {
  const size_t kind = draw.below(5);
  const Mesh shared = draw.below(3) == 0 ? mesh : with_random_shares(mesh, draw);
  Strategy strategy = kind < 2 ? random_strategy(graph, shared, draw) : [&] {
    Strategy named = kind == 2 ? named_strategy(draw.of({"ps", "dp", "fsdp", "zero1"}), graph, mesh)
                               : random_names(graph, mesh, draw);
    named.mesh = shared;
    const auto most = static_cast<size_t>(batch_of(graph));
    named.microbatches = static_cast<int>(1 + draw.below(std::min<size_t>(most, 3)));
    if (accumulate_obstacle(graph).empty()) {
      named.accumulate =
          static_cast<int>(1 + draw.below(most / static_cast<size_t>(named.microbatches)));
    }
    if (kind == 4) {
      scatter_storages(graph, named, draw);
    }
    return with_recompute(graph, named, kRecomputes[draw.below(std::size(kRecomputes))]);
  }();
  return with_random_messages(graph, std::move(strategy), draw);
}

void try_case(int number) {
  Draw draw(static_cast<uint64_t>(number));
  const Graph graph = random_model(draw);
  try_training("case " + std::to_string(number), graph, [&] {
    return random_training(graph, random_mesh(static_cast<int64_t>(1 + draw.below(7)), draw), draw);
  });
}

TEST(RandomCases, EqualOneRank) {
  const auto [first, last] = cases_to_try("HIDUP_RANDOM_CASES", HIDUP_RANDOM_CASES);
  for (int number = first; number <= last; ++number) {
    try_case(number);
  }
}

}  // namespace
}  // namespace hidup
