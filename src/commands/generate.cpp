// hidup generate: continues a text with a trained model.
#include <unistd.h>

#include <utility>

#include "app/expert_loads.h"
#include "app/planning.h"
#include "app/pretrained.h"
#include "comm/communicator.h"
#include "commands/commands.h"
#include "core/check.h"
#include "core/random.h"
#include "core/results.h"

namespace hidup {

int generate(const GenerateOptions& options) {
  const DeckSource source = read_deck_file(options.deck);
  Deck deck = parse_decks(&source, nullptr, options.overrides);
  const std::string trace = trace_text(deck);
  deck = with_trace(std::move(deck), trace);
  const CheckpointFile checkpoint = open_checkpoint(*make_self_communicator(), options.resume);
  LanguageModel model(deck, graph_text(deck), checkpoint);
  std::vector<int32_t> text = model.tokenizer().encode(options.prompt);
  if (text.empty()) {
    fail(ExitCode::usage, "--prompt: the text has no token to start from");
  }
  results::write(options.prompt);
  size_t shown = model.tokenizer().decode(text).size();
  const RandomStream random = random_stream(options.seed, "generate");
  const Sampling sampling{.temperature = options.temperature, .top_k = options.top_k};
  for (int64_t i = 0; i < options.tokens; ++i) {
    const auto uniform = static_cast<double>(random.uniform(static_cast<uint64_t>(i)));
    text.push_back(sample(model.next(text), sampling, uniform));
    const std::string all = model.tokenizer().decode(text);
    results::write(all.substr(shown));
    shown = all.size();
    if (!results::flush()) {
      break;  // nobody reads the output any more
    }
  }
  if (isatty(STDOUT_FILENO) == 1) {
    results::write("\n");
  }
  return 0;
}

}  // namespace hidup
