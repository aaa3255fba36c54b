#include "app/pretrained.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "app/planning.h"
#include "core/check.h"
#include "core/images.h"
#include "deck/cluster_deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "graph/text.h"
#include "program/lower.h"
#include "search/named/named_strategies.h"
#include "small_decks.h"
#include "temporary_folder.h"
#include "train/evaluate.h"
#include "train/persistent.h"

namespace hidup {
namespace {

constexpr int64_t kVocab = 23;
constexpr int64_t kSequence = 9;

Deck parse(const std::string& text) {
  const DeckSource source{"deck", text, "."};
  Deck deck = parse_decks(&source, nullptr, {});
  deck.cluster->device_threads = 1;
  return deck;
}

Deck deck_of(const std::string& more) {
  return parse(
      "model: {family: gpt, layers: 2, hidden: 12, ffn: 20, heads: 3, sequence: 9, vocab: 23" +
      more + "}\ndata: {kind: synthetic}\ntrain: {batch: 3, steps: 1, seed: 7}\n");
}

// A data set of one window of tokens.
class OneWindow : public Batches {
 public:
  explicit OneWindow(std::vector<int32_t> tokens)
      : Batches(kSequence), tokens_(std::move(tokens)) {}

  Samples read(int64_t, int64_t count) const override {
    Samples samples;
    for (int64_t i = 0; i < count; ++i) {
      samples.tokens.insert(samples.tokens.end(), tokens_.begin(), tokens_.begin() + kSequence);
      samples.targets.insert(samples.targets.end(), tokens_.begin() + 1,
                             tokens_.begin() + 1 + kSequence);
    }
    return samples;
  }

 private:
  std::vector<int32_t> tokens_;
};

// A model with its initial parameters on one rank, and its checkpoint.
class Pretrained {
 public:
  explicit Pretrained(const Deck& deck, const std::string& graph = "", int64_t vocab = kVocab)
      : deck_(deck) {
    const Graph model = make_graph(deck, graph, vocab);
    const Mesh mesh = {{"ranks", 1}};
    program_ = lower_forward(model, named_strategy("dp", model, mesh), lowering_options(deck), {});
    const MemoryPlan plan = plan_memory(program_, 0);
    groups_.emplace(*self_, mesh);
    const PlannedProgram planned{program_, plan};
    store_.emplace(std::span(&planned, 1), *device_, *groups_, 1);
    executor_.emplace(program_, plan, *store_, 0, deck.train->seed);
    executor_->initialize_parameters();
    kept_ = persistent_values(program_, 0);
    state_ = {.step = 1,
              .seed = deck.train->seed,
              .resolved = resolved_yaml(deck, DeckFile::model),
              .graph = graph};
    write();
  }

  // Writes a checkpoint of the present values.
  void write() {
    CheckpointWriter writer(*self_, {.folder = folder_ / "ckpt", .blocking = true}, kept_.tensors,
                            kept_.regions);
    writer.save(state_, [&](size_t tensor, int64_t first, int64_t count, std::byte* to) {
      executor_->read(kept_.values[tensor], first, count, to);
    });
  }

  CheckpointFile file() const { return CheckpointFile(folder_ / ("ckpt/" + checkpoint_name(1))); }
  TrainingState& state() { return state_; }
  // Changes an element of a parameter.
  void set(const std::string& parameter, int64_t element, float value) {
    executor_->write(kept_.values[tensor(parameter)], element, 1,
                     std::as_bytes(std::span(&value, 1)).data());
    write();
  }
  PersistentValues& kept() { return kept_; }
  // Returns the number of a tensor of kept().
  size_t tensor(const std::string& name) const {
    return static_cast<size_t>(std::ranges::find(kept_.tensors, name, &StoredTensor::name) -
                               kept_.tensors.begin());
  }
  double loss(const std::vector<int32_t>& window) {
    const OneWindow batches(window);
    Evaluator evaluator(deck_, batches, 1, *executor_, *self_);
    const double loss = evaluator.run().loss;
    if (!std::isfinite(loss)) {
      evaluator.fail_not_finite("behind all steps: ");
    }
    return loss;
  }

 private:
  const Deck& deck_;
  TemporaryFolder folder_;
  PersistentValues kept_;
  TrainingState state_;
  std::unique_ptr<Communicator> self_ = make_self_communicator();
  std::unique_ptr<Device> device_ = make_device({});
  Program program_;
  std::optional<MeshGroups> groups_;
  std::optional<Store> store_;
  std::optional<Executor> executor_;
};

std::vector<int32_t> random_text(size_t tokens) {
  const RandomStream random = random_stream(3, "text");
  std::vector<int32_t> text;
  for (size_t i = 0; i < tokens; ++i) {
    text.push_back(static_cast<int32_t>(random.word(i) % kVocab));
  }
  return text;
}

double cross_entropy(const std::vector<float>& logits, int32_t target) {
  double sum = 0.0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit));
  }
  return std::log(sum) - static_cast<double>(logits.at(static_cast<size_t>(target)));
}

// Logits of one token at a time equal those of the whole window.
TEST(LanguageModel, HasTheLogitsOfTheLoss) {
  const Deck deck = deck_of("");
  Pretrained trained(deck);
  LanguageModel model(deck, "", trained.file());
  const std::vector<int32_t> window = random_text(kSequence + 1);
  double sum = 0.0;
  for (size_t p = 0; p < kSequence; ++p) {
    sum += cross_entropy(model.next(std::span(window).first(p + 1)), window[p + 1]);
  }
  EXPECT_NEAR(sum / kSequence, trained.loss(window), 1e-5);
}

// Text behind the prefix changes nothing, even where an earlier, longer text left it there. This
// holds with experts, too, although they have fewer slots than tokens in training. The number of
// tokens of an expert may change the order of its sums.
TEST(LanguageModel, DoesNotDependOnWhatIsBehindTheText) {
  for (const char* more :
       {"", ", moe: {experts: 3, every: 1, router: top2, capacity_factor: 0.5}"}) {
    const Deck deck = deck_of(more);
    const Pretrained trained(deck);
    LanguageModel model(deck, "", trained.file());
    const std::vector<int32_t> text = random_text(kSequence);
    std::vector<std::vector<float>> logits;
    for (size_t seen = 1; seen <= kSequence; ++seen) {
      logits.push_back(model.next(std::span(text).first(seen)));
    }
    for (size_t seen = 1; seen <= kSequence; ++seen) {
      EXPECT_THAT(model.next(std::span(text).first(seen)),
                  ::testing::Pointwise(::testing::FloatNear(*more == '\0' ? 0.0F : 1e-6F),
                                       logits[seen - 1]))
          << seen << more;
    }
    EXPECT_NE(logits[2], logits[3]);
  }
}

TEST(LanguageModel, SeesTheLastPositionsOfALongText) {
  const Deck deck = deck_of("");
  const Pretrained trained(deck);
  LanguageModel model(deck, "", trained.file());
  const std::vector<int32_t> text = random_text(2 * kSequence);
  EXPECT_EQ(model.next(text), model.next(std::span(text).last(kSequence)));
  EXPECT_NE(model.next(text), model.next(std::span(text).first(kSequence)));
}

TEST(LanguageModel, TakesTheVocabularyOfTheCheckpoint) {
  const Deck deck = deck_of("");
  const Pretrained trained(deck);
  Deck other = deck;
  other.model->vocab.reset();
  EXPECT_EQ(with_vocab_of(trained.file(), other).model->vocab, kVocab);
  other.model->vocab = 24;
  EXPECT_EQ(with_vocab_of(trained.file(), other).model->vocab, 24);
  const auto [code, message] = error_of([&] { LanguageModel(other, "", trained.file()); });
  EXPECT_EQ(code, ExitCode::usage);
  EXPECT_NE(message.find("model.vocab: 23 -> 24"), std::string::npos) << message;
}

constexpr const char* kUp = "parameters/layers.0.ffn.up.weight";  // [12, 20]

// Files that somebody forged with right checksums.
struct Crafted {
  const char* what;  // the error about the file
  void (*change)(Pretrained& trained);
};

TEST(StoredParameters, AreThoseOfTheModel) {
  const Deck deck = deck_of("");
  const Crafted cases[] = {
      {": has no parameters/layers.0.ffn.up.weight",
       [](Pretrained& trained) {
         const auto at = static_cast<std::ptrdiff_t>(trained.tensor(kUp));
         PersistentValues& kept = trained.kept();
         kept.tensors.erase(kept.tensors.begin() + at);
         kept.regions.erase(kept.regions.begin() + at);
         kept.values.erase(kept.values.begin() + at);
       }},
      {": parameters/layers.0.ffn.up.weight is f32[20, 12], expected a floating type and [12, 20]",
       [](Pretrained& trained) {
         const size_t at = trained.tensor(kUp);
         std::ranges::reverse(trained.kept().tensors[at].shape);
         Region& region = trained.kept().regions[at];
         std::swap(region.extent[0], region.extent[1]);
         std::swap(region.global[0], region.global[1]);
       }},
      {": parameters/layers.0.ffn.up.weight is i32[12, 20], expected a floating type and [12, 20]",
       [](Pretrained& trained) { trained.kept().tensors[trained.tensor(kUp)].dtype = DType::i32; }},
      {": has parameters/mine, which its model lacks",
       [](Pretrained& trained) {
         trained.kept().tensors[trained.tensor(kUp)].name = "parameters/mine";
       }},
      {", /state/resolved:1:1: expected ",
       [](Pretrained& trained) { trained.state().resolved = "nonsense"; }},
      {", /state/resolved: model.vocab: expected a number",
       [](Pretrained& trained) {
         trained.state().resolved =
             "model: {layers: 2, hidden: 12, heads: 3, sequence: 9}\ndata: {kind: text, path: "
             "text.txt}\n"
             "train: {batch: 3, steps: 1}\n";
       }},
      {": its model cannot be built: mine:1:", [](Pretrained& trained) {
         trained.state().resolved =
             "model: {graph: mine, sequence: 9, vocab: 23}\n"
             "data: {kind: synthetic}\ntrain: {batch: 3, steps: 1}\n";
         trained.state().graph = "graphs";
       }}};
  for (const auto& [what, change] : cases) {
    Pretrained trained(deck);
    EXPECT_FALSE(stored_parameters(trained.file(), deck_of(trained.file())).empty());
    change(trained);
    trained.write();
    const CheckpointFile file = trained.file();
    const auto [code, message] = error_of([&] { stored_parameters(file, deck_of(file)); });
    EXPECT_EQ(code, ExitCode::file) << message;
    EXPECT_THAT(message, ::testing::StartsWith(file.path() + what));
  }
}

// No deck key gives the classes of an image model.
TEST(StoredParameters, OfImages) {
  const Deck deck = parse(
      "model: {family: vit, layers: 1, hidden: 12, heads: 3}\ndata: {kind: images}\n"
      "train: {batch: 3, steps: 1}\n");
  const CheckpointFile file = Pretrained(deck, "", kImageClasses).file();
  EXPECT_FALSE(stored_parameters(file, deck_of(file)).empty());
}

// The error names the logits even where one token alone has finite numbers.
TEST(LanguageModel, SaysWhereItsLogitsAreNotFinite) {
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), -INFINITY}) {
    const Deck deck = deck_of("");
    Pretrained trained(deck);
    trained.set(kUp, 7, wrong);
    LanguageModel model(deck, "", trained.file());
    const auto [code, message] = error_of([&] { model.next(random_text(3)); });
    EXPECT_EQ(code, ExitCode::not_finite);
    EXPECT_THAT(message, ::testing::StartsWith(trained.file().path() + ": the logits "));
    EXPECT_THAT(message, ::testing::HasSubstr("that of instruction "));
    EXPECT_THAT(message, ::testing::HasSubstr(" layers.0.ffn.up) on rank 0"));
  }
}

TEST(Evaluator, SaysInWhichBatchAndWhereItsLossIsNotFinite) {
  const Deck deck = deck_of("");
  Pretrained trained(deck);
  trained.set(kUp, 7, std::numeric_limits<float>::quiet_NaN());
  const auto [code, message] = error_of([&] { trained.loss(random_text(kSequence + 1)); });
  EXPECT_EQ(code, ExitCode::not_finite);
  EXPECT_THAT(message, ::testing::StartsWith("behind all steps: the loss of batch 1 is not "
                                             "finite: the first output that is not finite is "));
  EXPECT_THAT(message, ::testing::HasSubstr(" layers.0.ffn.up) on rank 0"));
}

TEST(Sample, TakesTheLargestWithoutTemperature) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F, 3.0F};
  for (const double uniform : {0.0, 0.5, 0.999}) {
    EXPECT_EQ(sample(logits, {}, uniform), 1);
    EXPECT_EQ(sample(logits, {.temperature = 2.0, .top_k = 1}, uniform), 1);
  }
}

// The share of evenly spaced numbers that choose a token is its softmax.
TEST(Sample, DrawsFromTheSoftmax) {
  const std::vector<float> logits = {0.0F, std::log(4.0F), std::log(4.0F), -1e30F};
  const auto shares = [&](const Sampling& sampling) {
    std::map<int32_t, int> counts;
    for (int i = 0; i < 900; ++i) {
      ++counts[sample(logits, sampling, (i + 0.5) / 900.0)];
    }
    return counts;
  };
  using Shares = std::map<int32_t, int>;
  EXPECT_EQ(shares({.temperature = 1.0}), (Shares{{0, 100}, {1, 400}, {2, 400}}));
  EXPECT_EQ(shares({.temperature = 2.0}), (Shares{{0, 180}, {1, 360}, {2, 360}}));
  EXPECT_EQ(shares({.temperature = 1.0, .top_k = 2}), (Shares{{1, 450}, {2, 450}}));
  EXPECT_EQ(shares({.temperature = 1.0, .top_k = 99}), (Shares{{0, 100}, {1, 400}, {2, 400}}));
}

}  // namespace
}  // namespace hidup
