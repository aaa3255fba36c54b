#include "app/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "app/expert_loads.h"
#include "app/planning.h"
#include "app/pretrained.h"
#include "app/rank_order.h"
#include "comm/collective.h"
#include "core/log.h"
#include "core/text.h"
#include "deck/cluster_deck.h"
#include "deck/device_classes.h"
#include "deck/train_deck.h"
#include "train/persistent.h"
#include "train/schedule.h"

namespace hidup {

std::string text_of_first(Communicator& world, const std::function<std::string()>& read) {
  std::string text;
  collectively(world, [&] { text = world.rank() == 0 ? read() : ""; });
  return world.broadcast(text);
}

namespace {

// Returns the lines of all ranks in rank order, on every rank.
std::vector<std::string> lines_of_all(Communicator& world, const std::string& mine) {
  const std::string all =
      world.broadcast(fmt::format("{}", fmt::join(gather_texts(world, mine), "\n")));
  std::vector<std::string> lines;
  for (const std::string_view line : split(all, '\n')) {
    lines.emplace_back(line);
  }
  return lines;
}

}  // namespace

Decks load_decks(const std::string& model, const std::string& cluster,
                 const std::vector<std::string>& overrides, Communicator& world,
                 const std::string& host) {
  Decks decks;
  collectively(world, [&] {
    if (world.rank() == 0) {
      decks.model = model.empty() ? DeckSource{} : read_deck_file(model);
      decks.cluster = cluster.empty() ? DeckSource{} : read_deck_file(cluster);
    }
  });
  for (DeckSource* source : {&decks.model, &decks.cluster}) {
    for (std::string* text : {&source->name, &source->text, &source->folder}) {
      *text = world.broadcast(*text);
    }
  }
  collectively(world, [&] {
    decks.deck = parse_decks(model.empty() ? nullptr : &decks.model,
                             cluster.empty() ? nullptr : &decks.cluster, overrides, world.size());
  });
  decks.hosts = lines_of_all(world, host);
  decks.ranks_are_counted = counts_ranks(*decks.deck.cluster);
  collectively(world, [&] { decks.deck = with_hosts(std::move(decks.deck), decks.hosts); });
  decks.graph = text_of_first(world, [&] { return graph_text(decks.deck); });
  const std::string loads = text_of_first(world, [&] { return expert_loads_text(decks.deck); });
  const std::string trace = text_of_first(world, [&] { return trace_text(decks.deck); });
  collectively(world, [&] {
    decks.deck = with_trace(with_expert_loads(std::move(decks.deck), loads), trace);
  });
  return decks;
}

std::vector<int> order_ranks(Decks& decks, const Mesh& mesh, MpiSession& mpi) {
  const ClusterDeck& cluster = *decks.deck.cluster;
  if (cluster.order != "auto" || cluster.emulates()) {
    return {};
  }
  const char* own_switches = std::getenv("SLURM_TOPOLOGY_ADDR");
  const std::vector<std::string> switches =
      lines_of_all(mpi.world(), own_switches == nullptr ? "" : own_switches);
  const std::vector<size_t> classes = classes_of_ranks(cluster, mpi.world().size());
  std::vector<RankSite> sites;
  for (size_t rank = 0; rank < classes.size(); ++rank) {
    sites.push_back({decks.hosts[rank], switches[rank], classes[rank]});
  }
  RankOrder order = order_of_ranks(sites, mesh);
  if (order.reason.empty()) {
    return {};
  }
  if (decks.ranks_are_counted) {
    log::info(
        "{} would be better, but cluster.devices counts ranks as mpirun numbers them: with "
        "`host` in each item it could",
        describe(order));
    return {};
  }
  log::info("{}", describe(order));
  mpi.order_ranks(order.ranks);
  decks.deck = with_order(std::move(decks.deck), order.ranks);
  return std::move(order.ranks);
}

namespace {

// Gives a model that is not trained the vocabulary of its training.
Dataset load_data(const Deck& deck, const RunFiles& files, Communicator& world) {
  if (files.is_training() || !files.checkpoint) {
    return load_data(deck, world);
  }
  Deck known;
  collectively(world, [&] { known = with_vocab_of(*files.checkpoint, deck); });
  return load_data(known, world, files.checkpoint->state().vocabulary);
}

// Throws Error(usage) where the checkpoint is of another model. Logs how a training continues.
void check_checkpoint(const RunFiles& files, const Decks& decks, const Dataset& data) {
  const CheckpointFile& checkpoint = *files.checkpoint;
  const std::string changed =
      check_resumable(checkpoint, {with_vocab(decks.deck, data.vocab), decks.graph, data.vocabulary,
                                   files.is_training() ? data.hash() : 0});
  if (!files.is_training() || files.steps_done() >= decks.deck.train->steps) {
    return;
  }
  log::info("resumes from {}, step {}{}", checkpoint.path(), files.steps_done(),
            changed.empty() ? "" : "; changed since: " + changed);
  const std::string raised =
      describe_raise(*deck_of(checkpoint).train, *decks.deck.train, files.steps_done());
  if (!raised.empty()) {
    log::warning("{}", raised);
  }
}

}  // namespace

Inputs read_inputs(const InputOptions& options, MpiSession& mpi) {
  Decks decks =
      load_decks(options.deck, options.cluster, options.overrides, mpi.world(), mpi.host());
  const Deck& deck = decks.deck;
  Mesh mesh;
  const auto make_mesh = [&] { mesh = mesh_of(deck, check_ranks(deck, mpi.world().size())); };
  collectively(mpi.world(), make_mesh);
  std::vector<int> mpi_ranks = order_ranks(decks, mesh, mpi);
  make_mesh();  // with the paces of the ranks in their order
  Communicator& world = mpi.world();
  RunFileOptions file_options = options.files;
  collectively(world, [&] {
    options.check(deck);
    if (!file_options.out.empty()) {
      file_options.inputs =
          files_read(options.deck, options.cluster, deck, options.strategy, options.hints);
    }
  });
  mpi.set_timeouts(deck.cluster->heartbeat_timeout_s, deck.cluster->collective_timeout_s);
  RunFiles files = open_run_files(file_options, deck, world);
  Dataset data = load_data(deck, files, world);
  if (files.is_training()) {
    log::info("data: {}", data.description);
  }
  std::optional<Graph> graph;
  std::optional<InitialModel> initial;
  collectively(world, [&] {  // before anything slow
    graph.emplace(make_graph(deck, decks.graph, data.vocab));
    if (files.checkpoint) {
      check_checkpoint(files, decks, data);
    } else if (!options.init.empty()) {
      initial.emplace(options.init, options.names, deck, *graph, data.vocab);
      if (files.is_training()) {
        log::info("starts from {}, with the names of {}", initial->path(), initial->names());
      }
    }
  });
  return {std::move(decks), std::move(mesh),   std::move(mpi_ranks), std::move(files),
          std::move(data),  *std::move(graph), std::move(initial)};
}

}  // namespace hidup
