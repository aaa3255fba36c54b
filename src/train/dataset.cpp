#include "train/dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>

#include "comm/collective.h"
#include "core/units.h"
#include "deck/data_deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "train/images.h"

namespace hidup {
namespace {

// Runs `work` and adds the place of that key to its errors.
template <typename Work>
auto at_key(const Deck& deck, std::string_view key, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    fail_at(deck, key, error.what(), error.code());
  }
}

std::shared_ptr<const Corpus> open_corpus(const Deck& deck, std::string_view key,
                                          const std::vector<std::string>& paths,
                                          const Vocabulary& vocabulary, bool is_complete) {
  return at_key(deck, key, [&] {
    return std::make_shared<const Corpus>(CorpusOptions{.kind = deck.data->kind,
                                                        .paths = paths,
                                                        .tokenizer = deck.data->tokenizer,
                                                        .key = std::string(key),
                                                        .vocabulary = vocabulary,
                                                        .is_complete = is_complete});
  });
}

// Returns the last windows (or images, as `what` says) of `all` for validation.
WindowRange validation_part(double fraction, int64_t all, const std::string& what) {
  const int64_t count = std::llround(fraction * static_cast<double>(all));
  if (count == 0 || count == all) {
    fail(ExitCode::usage,
         "data.validation {} of {} {} leaves {} for training and {} for validation: both need one",
         fraction, all, what, all - count, count);
  }
  return {.first = all - count, .count = count};
}

std::string describe(const CorpusSummary& summary) {
  return fmt::format("{} tokens in {} file(s), {} distinct, unigram entropy {:.4f} nats",
                     format_count(summary.tokens), summary.files.size(),
                     format_count(summary.distinct), summary.unigram_entropy);
}

Dataset synthetic_data(const Deck& deck) {
  Dataset data;
  data.vocab = deck.model->vocab.value();  // the deck's checks require it
  data.batches = synthetic_batches(data.vocab, deck.model->sequence, deck.train->seed);
  data.description = fmt::format("synthetic tokens below {}", format_count(data.vocab));
  return data;
}

std::shared_ptr<const ImageSet> open_image_set(const Deck& deck, std::string_view key,
                                               const std::vector<std::string>& paths,
                                               Dataset& data) {
  return at_key(deck, key, [&] { return open_images(paths, std::string(key), data.files); });
}

Dataset image_data(const Deck& deck) {
  const ValidationData& wanted = deck.data->validation;
  Dataset data;
  data.vocab = kImageClasses;
  const std::shared_ptr<const ImageSet> images =
      deck.data->path.empty() ? synthetic_images(deck.train->seed)
                              : open_image_set(deck, "data.path", deck.data->path, data);
  std::shared_ptr<const ImageSet> validated = images;
  WindowRange train{.count = images->count()};
  WindowRange part;
  data.description =
      deck.data->path.empty()
          ? fmt::format("{} synthetic images", format_count(train.count))
          : fmt::format("{} images in {} file(s)", format_count(train.count), data.files.size());
  if (!wanted.path.empty()) {
    validated = open_image_set(deck, "data.validation", wanted.path, data);
    part.count = validated->count();
    data.description += fmt::format("; validation: {} images", format_count(part.count));
  } else if (wanted.fraction > 0.0) {
    part = at_key(deck, "data.validation",
                  [&] { return validation_part(wanted.fraction, train.count, "image(s)"); });
    train.count -= part.count;
    data.description += fmt::format("; validation: the last {} of them", format_count(part.count));
  }
  data.batches = image_batches(images, train, deck.train->seed);
  if (part.count > 0) {
    data.validation = image_batches(validated, part, std::nullopt);
    data.validation_sequences = part.count;
  }
  return data;
}

}  // namespace

Dataset open_data(const Deck& deck, const std::vector<std::string>& vocabulary) {
  if (deck.data->kind == "synthetic") {
    return synthetic_data(deck);
  }
  if (deck.data->kind == "images") {
    return image_data(deck);
  }
  const ValidationData& wanted = deck.data->validation;
  const int64_t sequence = deck.model->sequence;
  const bool is_complete = !vocabulary.empty();
  const auto corpus =
      open_corpus(deck, "data.path", deck.data->path, Vocabulary(vocabulary), is_complete);
  const auto validated = wanted.path.empty() ? corpus
                                             : open_corpus(deck, "data.validation", wanted.path,
                                                           corpus->vocabulary(), is_complete);
  const CorpusSummary& summary = corpus->summary();
  Dataset data;
  data.vocab = deck.model->vocab.value_or(std::max(summary.vocab, validated->summary().vocab));
  at_key(deck, "model.vocab", [&] {
    corpus->check_vocab(data.vocab);
    validated->check_vocab(data.vocab);
  });
  data.vocabulary = validated->vocabulary().words();
  data.unigram_entropy = summary.unigram_entropy;
  data.files = summary.files;
  data.description = describe(summary);

  WindowRange train{.count =
                        at_key(deck, "model.sequence", [&] { return windows(summary, sequence); })};
  WindowRange part;
  if (!wanted.path.empty()) {
    part.count =
        at_key(deck, "data.validation", [&] { return windows(validated->summary(), sequence); });
    data.files.insert(data.files.end(), validated->summary().files.begin(),
                      validated->summary().files.end());
    data.description += fmt::format("; validation: {}", describe(validated->summary()));
  } else if (wanted.fraction > 0.0) {
    part = at_key(deck, "data.validation", [&] {
      return validation_part(wanted.fraction, train.count,
                             fmt::format("window(s) of {} tokens", sequence));
    });
    train.count -= part.count;
    data.description +=
        fmt::format("; validation: the last {} of {} windows of {} tokens",
                    format_count(part.count), format_count(part.count + train.count), sequence);
  }
  data.batches = corpus_batches(corpus, train, sequence, deck.train->seed);
  if (part.count > 0) {
    data.validation = ordered_batches(validated, part, sequence);
    data.validation_sequences = part.count;
  }
  return data;
}

std::optional<int64_t> vocab_of(const Deck& deck) {
  if (deck.data->kind == "images") {
    return kImageClasses;
  }
  const bool bytes = deck.data->kind == "text" && deck.data->tokenizer == "bytes";
  return bytes && !deck.model->vocab ? std::optional(kByteTokens) : deck.model->vocab;
}

uint64_t Dataset::hash() const {
  uint64_t hash = 0;
  for (const CorpusFile& file : files) {
    hash = std::rotl(hash, 1) ^ file.hash;
  }
  return hash;
}

namespace {

// Returns a line per file, for rank 0 to compare.
std::string print_files(const std::vector<CorpusFile>& files) {
  std::string text;
  for (const CorpusFile& file : files) {
    text += fmt::format("{:016x} {}, {} bytes\n", file.hash, file.path, file.bytes);
  }
  return text;
}

// Returns the first file that differs from rank 0's: "FILE, N bytes, but ... on rank 0".
std::string first_difference(const std::string& other, const std::string& mine) {
  std::istringstream others(other);
  std::istringstream own(mine);
  std::string theirs;
  std::string ours;
  do {
    ours.clear();
    theirs.clear();
    std::getline(own, ours);
    std::getline(others, theirs);
  } while (theirs == ours && !ours.empty());
  const auto shown = [](const std::string& line) {
    return line.empty() ? "no such file" : line.substr(line.find(' ') + 1);
  };
  return fmt::format("{}, but on rank 0 {}", shown(theirs), shown(ours));
}

}  // namespace

void check_same_data(Communicator& world, const Dataset& data) {
  const std::vector<uint64_t> hashes = all_gather_value(world, data.hash());
  const auto other = std::ranges::find_if(hashes, [&](uint64_t h) { return h != hashes[0]; });
  if (other == hashes.end()) {
    return;
  }
  const auto rank = static_cast<size_t>(other - hashes.begin());
  const std::vector<std::string> files = gather_texts(world, print_files(data.files));
  throw CollectiveError(ExitCode::file,
                        world.rank() == 0
                            ? fmt::format("there is other data on rank {} than on rank 0: {}", rank,
                                          first_difference(files[rank], files[0]))
                            : "");
}

Dataset load_data(const Deck& deck, Communicator& world,
                  const std::vector<std::string>& vocabulary) {
  Dataset data;
  collectively(world, [&] { data = open_data(deck, vocabulary); });
  check_same_data(world, data);
  return data;
}

}  // namespace hidup
