// print_programs MODELS OUT: writes the programs of all model decks of a folder under every named
// strategy, on 1, 2, 4 and 64 ranks, in every precision and with one to three microbatches: a file
// per deck and setting, for comparisons with those of another commit.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/planning.h"
#include "core/check.h"
#include "core/new_file.h"
#include "program/lower.h"
#include "program/memory.h"
#include "program/print.h"
#include "search/named/named_strategies.h"

namespace hidup {
namespace {

std::string print_plan_of(const Program& program) {
  const MemoryPlan plan = plan_memory(program, 0);
  return fmt::format("{} bytes at {}\n", plan.bytes, fmt::join(plan.offsets, " "));
}

std::string print_all(const std::string& deck, const std::vector<std::string>& settings,
                      int64_t ranks) {
  std::string text;
  for (const NamedStrategy& named : named_strategies()) {
    text += fmt::format("== {}\n", named.name);
    try {
      const PlanningInput input = read_planning_input(deck, "", settings, ranks);
      const Strategy strategy =
          choose_strategy(std::string(named.name), input.deck, input.graph, input.mesh);
      const Program program = lower(input.graph, strategy, lowering_options(input.deck));
      text += print_program(program) + print_plan_of(program);
    } catch (const Error& error) {
      text += fmt::format("error: {}\n", error.what());
    }
  }
  return text;
}

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  using hidup::print_all;
  if (argc != 3) {
    fmt::print(stderr, "usage: print_programs MODELS OUT\n");
    return 2;
  }
  std::filesystem::create_directories(argv[2]);
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.path().extension() != ".yaml") {
      continue;
    }
    for (const int64_t ranks : {1, 2, 4, 64}) {
      for (const char* precision : {"fp32", "bf16", "fp16"}) {
        for (const int microbatches : {1, 2, 3}) {
          const std::vector<std::string> settings = {
              fmt::format("model.precision={}", precision),
              fmt::format("train.microbatches={}", microbatches)};
          const std::string name =
              fmt::format("{}/{}-{}-{}-{}.txt", argv[2], entry.path().stem().string(), ranks,
                          precision, microbatches);
          hidup::write_text_file(name, print_all(entry.path().string(), settings, ranks), true);
        }
      }
    }
  }
  return 0;
}
