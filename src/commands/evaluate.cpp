// hidup evaluate: the loss, and of images the accuracy, of a trained model on data.validation.
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "app/initial.h"
#include "app/inputs.h"
#include "app/job.h"
#include "app/machine.h"
#include "app/plan.h"
#include "app/planning.h"
#include "app/pretrained.h"
#include "comm/collective.h"
#include "comm/heartbeat.h"
#include "comm/mpi_session.h"
#include "commands/commands.h"
#include "core/failure.h"
#include "core/log.h"
#include "core/results.h"
#include "core/units.h"
#include "deck/cluster_deck.h"
#include "deck/data_deck.h"
#include "deck/train_deck.h"
#include "program/verify.h"
#include "train/dataset.h"
#include "train/evaluate.h"
#include "train/kept.h"

namespace hidup {
namespace {

class EvaluationRun {
 public:
  EvaluationRun(const EvaluateOptions& options, MpiSession& mpi)
      : options_(options), mpi_(mpi), world_(mpi.world()) {}

  ExitCode go() {
    decks_ = load_decks(options_.deck, options_.cluster, options_.overrides, world_);
    const Deck& deck = decks_.deck;
    Mesh mesh;
    collectively(world_, [&] {
      mesh = mesh_of(deck, check_ranks(deck, world_.size()));
      check_options();
    });
    guide_heartbeat();
    const Dataset data = open_model();

    const int threads = compute_threads(deck, world_, mpi_.host());
    const std::unique_ptr<Device> device = open_device(deck, mpi_);
    open_communication(deck, mesh, mpi_, *device, communication_);
    const Strategy strategy = choose(mesh);
    program_ = make_forward_program(*graph_, strategy, deck, world_);
    communication_.groups->add_groups_of(program_);
    std::optional<Store> store;
    std::optional<Executor> executor;
    collectively(world_, [&] {
      const MemoryPlan plan = plan_memory(program_, world_.rank());
      verify(program_, plan);
      const PlannedProgram planned{program_, plan};
      store.emplace(std::span(&planned, 1), *device, *communication_.groups, threads);
      executor.emplace(program_, plan, *store, world_.rank(),
                       checkpoint_ ? checkpoint_->state().seed : deck.train->seed);
    });
    store->register_arena();
    const std::string origin = load(*executor);
    log::info("model: {} of {}; strategy {}; {} rank(s), {} a rank", graph_->name(), origin,
              strategy.name, world_.size(), format_bytes(executor->plan().bytes));
    Evaluator evaluator(deck, *data.validation, data.validation_sequences, *executor, world_);
    evaluator_ = &evaluator;
    executor_ = &*executor;
    const MeanLoss found = evaluate(evaluator);
    guide_.reset();  // it reads what goes now
    if (world_.rank() == 0) {
      print(found);
    }
    return ExitCode::done;
  }

 private:
  // The graph, where its parameters are, and the data.
  Dataset open_model() {
    Deck deck = decks_.deck;
    std::vector<std::string> vocabulary;
    if (!options_.resume.empty()) {
      checkpoint_.emplace(open_checkpoint(world_, options_.resume));
      collectively(world_, [&] { deck = with_vocab_of(*checkpoint_, deck); });
      vocabulary = checkpoint_->state().vocabulary;
    }
    Dataset data = load_data(deck, world_, vocabulary);
    collectively(world_, [&] {
      if (checkpoint_) {
        check_resumable(*checkpoint_,
                        {with_vocab(deck, data.vocab), decks_.graph, data.vocabulary});
      }
      graph_.emplace(make_graph(deck, decks_.graph, data.vocab));
      if (!checkpoint_) {
        initial_.emplace(options_.init, options_.names, deck, *graph_, data.vocab);
      }
    });
    return data;
  }

  // Where the parameters are from, for people.
  std::string load(Executor& executor) {
    if (checkpoint_) {
      restore(world_, executor, *checkpoint_);
      return fmt::format("{}, step {}", checkpoint_->path(), checkpoint_->state().step);
    }
    collectively(world_, [&] { initial_->load(executor, world_.rank()); });
    return initial_->path();
  }

  void check_options() const {
    check_names(options_.names);
    if (options_.resume.empty() && options_.init.empty()) {
      fail(ExitCode::usage, "evaluate needs a model: --resume CHECKPOINT or --init FILE");
    }
    if (decks_.deck.data->validation.empty()) {
      fail_at(decks_.deck, "data",
              "data.validation: there is nothing to evaluate on: give it files, or the part of "
              "the data that training left out, such as --set data.validation=0.1");
    }
    if (options_.strategy == kSearch) {
      fail(ExitCode::usage, "--strategy: evaluate does not search; give a file or a name");
    }
    check_strategy_choice(options_.strategy);
  }

  // What the command line says, else the checkpoint's strategy, else dp.
  Strategy choose(const Mesh& mesh) {
    std::string choice = options_.strategy;
    if (choice.empty() && checkpoint_) {
      if (std::optional<Strategy> stored =
              stored_strategy(checkpoint_->state().strategy, decks_.deck, *graph_, mesh)) {
        return std::move(*stored);
      }
      log::info("the checkpoint's strategy is for another batch or mesh: dp takes its place");
    }
    return load_strategy(choice.empty() ? "dp" : choice, decks_.deck, *graph_, mesh,
                         {std::nullopt, "", 0}, world_)
        .strategy;
  }

  // A rank that fails alone ends all ranks from here, as in training.
  MeanLoss evaluate(Evaluator& evaluator) {
    try {
      const MeanLoss found = evaluator.run();
      if (!std::isfinite(found.loss)) {
        evaluator.fail_not_finite("");
      }
      return found;
    } catch (const CollectiveError&) {  // which all ranks have
      throw;
    } catch (...) {
      const Failure failure = current_failure();
      abort_all_ranks(failure.code,
                      fmt::format("batch {}: {}", evaluator.current_batch(), failure.message));
    }
  }

  void print(const MeanLoss& found) const {
    const bool images = decks_.deck.data->kind == "images";
    const double perplexity = std::exp(found.loss);
    if (options_.json) {
      nlohmann::ordered_json json = {{"loss", found.loss}, {"perplexity", perplexity}};
      if (images) {
        json["accuracy"] = found.accuracy;
      }
      json[images ? "images" : "tokens"] = found.targets;
      results::print("{}\n", json.dump(2));
      return;
    }
    results::print("loss        {:.6f} nats per {}\n", found.loss, images ? "image" : "token");
    results::print("perplexity  {:.6g}\n", perplexity);
    if (images) {
      results::print("accuracy    {:.2f} %\n", 100.0 * found.accuracy);
    }
    results::print("{:<10}  {}\n", images ? "images" : "tokens", format_count(found.targets));
  }

  void guide_heartbeat() {
    const auto here = [this] {
      const Evaluator* evaluator = evaluator_.load();
      const Executor* executor = executor_.load();
      return Progress{evaluator != nullptr ? evaluator->current_batch() : 0,
                      executor != nullptr ? executor->current_instruction() : -1};
    };
    const auto describe = [this](const Progress& progress) -> std::string {
      if (progress.step == 0) {
        return "starting";
      }
      if (progress.instruction == Executor::kUntimed) {
        return fmt::format("in batch {}", progress.step);
      }
      if (progress.instruction < 0) {
        return fmt::format("at the end of batch {}", progress.step);
      }
      return fmt::format("in batch {}, at {}", progress.step,
                         program_.instructions.at(static_cast<size_t>(progress.instruction)).name);
    };
    const ClusterDeck& cluster = *decks_.deck.cluster;
    mpi_.set_timeouts(cluster.heartbeat_timeout_s, cluster.collective_timeout_s);
    guide_.emplace(mpi_.heartbeat(), here, describe);
  }

  const EvaluateOptions& options_;
  MpiSession& mpi_;
  Communicator& world_;
  Decks decks_;
  std::optional<CheckpointFile> checkpoint_;  // one of the two
  std::optional<InitialModel> initial_;
  std::optional<Graph> graph_;
  Program program_;
  std::atomic<const Evaluator*> evaluator_ = nullptr;
  std::atomic<const Executor*> executor_ = nullptr;
  std::optional<Heartbeat::Guide> guide_;
  Communication communication_;
};

}  // namespace

int evaluate(const EvaluateOptions& options, int* argc, char*** argv) {
  return run_job(argc, argv, [&](MpiSession& mpi) { return EvaluationRun(options, mpi).go(); });
}

}  // namespace hidup
