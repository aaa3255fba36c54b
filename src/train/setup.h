// From decks to what a run needs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "deck/deck.h"
#include "program/lower.h"
#include "runtime/executor.h"
#include "train/batches.h"

namespace hidup {

// The data of a run, opened.
struct Dataset {
  std::unique_ptr<Batches> batches;
  std::unique_ptr<Batches> validation;  // in the order of the files; null: there is none
  int64_t validation_sequences = 0;     // its samples: 0 .. validation_sequences - 1
  // Of the model: the deck's number, or what the data needs. Of images: their classes.
  int64_t vocab = 0;
  std::vector<std::string> vocabulary;  // by number; empty unless tokens are words
  double unigram_entropy = -1.0;        // nats per token; negative where there is none (synthetic)
  std::vector<CorpusFile> files;  // those of the validation last; none where data is synthetic
  std::string description;        // a line for people

  // Of all that the files hold; 0 where there are none.
  uint64_t hash() const;
};
// Where tokens are words and `vocabulary` is not empty, they are numbered by it, and others are
// refused. Otherwise those of the validation's files go on where those of the data end. Throws
// Error(file) or Error(usage) as Corpus and windows() do, and where a part of the data for
// validation leaves no window on one side, with the key's place.
Dataset open_data(const Deck& deck, const std::vector<std::string>& vocabulary = {});

// Dataset::vocab where the deck says it without its data: a number in model.vocab, bytes, images.
// Nothing where model.vocab is auto and only files say what it is.
std::optional<int64_t> vocab_of(const Deck& deck);

// Throws CollectiveError(file) naming a rank and a file where ranks read different data.
void check_same_data(Communicator& world, const Dataset& data);

// The mesh with the deck's names and these sizes. Ranks are numbered as the deck has its axes, the
// last one's are neighbours. Where it has a bandwidth for each, the mesh has the axis of the
// slowest links first, so that the order in the deck makes no difference to what is planned.
Mesh mesh_of(const Deck& deck, const std::vector<int64_t>& sizes);

// What the training section says about the program.
LoweringOptions lowering_options(const Deck& deck);

// How the instructions of a step follow each other, where their times are wanted and where not.
Executor::Order execution_order(const Deck& deck, bool timed = true);

// Whether times are those of the deck's cluster, on CPU ranks that need not be like its own.
bool emulates(const Deck& deck);

// The cores that this rank may run on, divided by the ranks of its host that are bound to the same
// ones. Collective.
double share_of_cores(Communicator& world, const std::string& host);

// The deck's number of threads; or, for auto, OMP_NUM_THREADS; or else this rank's
// share_of_cores(), at least 1. Where times are emulated, not more than that: the deck's number is
// that of the emulated device. Where that leaves no core for communication, messages are waited for
// accordingly (comm/patient_yield.h). Collective.
int compute_threads(const Deck& deck, Communicator& world, const std::string& host);

}  // namespace hidup
