// Every kernel of a training step on one device, at the sizes of a model: its time, the least time
// for its bytes and flops, and the ratio, as a Markdown table.
//
//   bench_kernels inputs/models/gpt2-124m.yaml --set train.batch=8 --set model.precision=bf16
//
// Steps run instruction by instruction. Before each the cache is overwritten; its time is that
// between two events, less that between two events with nothing between them; medians over all
// instructions of an operation, type and size. The floor of an instruction is the longer of its
// bytes at the rate of memory (read and written) and, for products, its flops at the rate of a
// large product of its type; the rates are measured first. Bytes and flops are the cost model's
// (program/work.h). Profilers see every instruction as a range of the domain hidup, with the
// operation's name. Built by the target bench_kernels.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "app/planning.h"
#include "core/check.h"
#include "core/median.h"
#include "core/units.h"
#include "cost/floor.h"
#include "deck/deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "device/annotate.h"
#include "device/device.h"
#include "kernels/library.h"
#include "kernels/step_state.h"
#include "program/lower.h"
#include "program/memory.h"
#include "program/work.h"
#include "runtime/bind.h"
#include "runtime/profiler.h"
#include "runtime/rates.h"
#include "search/named/named_strategies.h"
#include "timed_device.h"
#include "train/dataset.h"
#include "train/inputs.h"

namespace hidup {
namespace {

struct Options {
  std::string deck;
  std::vector<std::string> overrides;
  int threads = 1;           // of a CPU
  int steps = 4;             // the first warms up
  int64_t product = 8192;    // rows, columns and summed elements of the large product
  int64_t megabytes = 1024;  // of each tensor for memory's rate
  int64_t flush = 0;         // megabytes written between instructions; 0: by the device's cache
};

// Prints each rate as soon as it is known.
DeviceRates print_rates(TimedDevice& bench, const Options& options, const std::set<DType>& types) {
  DeviceRates rates;
  for (const DType dtype : types) {
    rates.products[dtype] = product_rate(bench.device(), bench.stream(), options.product, dtype);
    fmt::print("A product of {0} x {0} x {0} in {1}: {2:.4g} Tflop/s.\n", options.product,
               name_of(dtype), 1e-12 * rates.products[dtype]);
  }
  rates.memory = memory_rate(bench.device(), bench.stream(), options.megabytes << 20);
  fmt::print("Memory, by tensors of {} MiB: {:.4g} GB/s.\n", options.megabytes,
             1e-9 * rates.memory);
  return rates;
}

struct Row {
  Work work;
  std::vector<double> seconds;
  int64_t per_step = 0;
};
// Keys are operation, type and sizes.
using Rows = std::map<std::tuple<Opcode, DType, std::vector<int64_t>>, Row>;

// The steps of a model on one rank, instruction by instruction.
class Steps {
 public:
  Steps(TimedDevice& bench, const Deck& deck)
      : bench_(bench),
        data_(open_data(deck)),
        world_(make_self_communicator()),
        program_(lower_on_one_rank(deck, data_.vocab)),
        plan_(plan_memory(program_, 0)),
        groups_(*world_, program_.mesh),
        arena_(bench.device().allocate(plan_.bytes)),
        state_(bench.device().allocate(sizeof(kernels::StepState))) {
    const Binding binding{
        program_, plan_, 0, arena_->data(), reinterpret_cast<kernels::StepState*>(state_->data()),
        groups_,  1};
    for (const Instruction& instruction : program_.instructions) {
      check(collective_of(instruction.opcode).empty(), "one rank communicates");
      issue_.push_back(bind(instruction, binding));
      start_.push_back(bench.device().create_event());
      end_.push_back(bench.device().create_event());
    }
    fill_parameters();
    fill_inputs(program_, 0, deck, *data_.batches, 1, inputs_);
  }

  int64_t arena_bytes() const { return plan_.bytes; }

  // Returns the element types that products multiply.
  std::set<DType> product_types() const {
    std::set<DType> types;
    for (const Instruction& instruction : program_.instructions) {
      if (is_product(instruction.opcode)) {
        types.insert(element_dtype(program_, instruction));
      }
    }
    return types;
  }

  // Adds a step's times. Returns the norm of all gradients; if it is not finite, the optimizer did
  // nothing.
  float run(int64_t step, Rows& rows) {
    // The scale keeps 16-bit gradients from becoming zeros; other types need none.
    const kernels::StepState state = {
        .step = static_cast<uint64_t>(step), .learning_rate = 1e-4F, .loss_scale = 1024.0F};
    bench_.stream().copy(state_->data(), &state, sizeof(state));
    copy_inputs(program_.tokens, inputs_.tokens);
    copy_inputs(program_.targets, inputs_.targets);
    copy_inputs(program_.images, inputs_.images);
    copy_inputs(program_.choices, inputs_.choices);
    for (size_t i = 0; i < issue_.size(); ++i) {
      bench_.flush();
      bench_.stream().record(*start_[i]);
      {
        const NamedRange range{std::string(name_of(program_.instructions[i].opcode))};
        issue_[i](bench_.stream());
      }
      bench_.stream().record(*end_[i]);
    }
    float norm = 0.0F;
    bench_.stream().copy(&norm, at(program_.gradient_norm), sizeof(norm));
    bench_.stream().synchronize();
    add_times(rows);
    return norm;
  }

 private:
  void add_times(Rows& rows) {
    for (auto& [key, row] : rows) {
      row.per_step = 0;
    }
    for (size_t i = 0; i < issue_.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      Work work = work_of(program_, instruction, 0);
      Row& row = rows[{instruction.opcode, work.dtype, work.sizes}];
      row.work = std::move(work);
      row.seconds.push_back(bench_.net(*start_[i], *end_[i]));
      ++row.per_step;
    }
  }

  static Program lower_on_one_rank(const Deck& deck, int64_t vocab) {
    const Graph graph = make_graph(deck, graph_text(deck), vocab);
    return lower(graph, named_strategy("dp", graph, {{"ranks", 1}}), lowering_options(deck));
  }

  std::byte* at(ValueId value) {
    return arena_->data() + plan_.offsets[static_cast<size_t>(value)];
  }

  void copy_inputs(const std::vector<ValueId>& values, const auto& parts) {
    for (size_t i = 0; i < values.size(); ++i) {
      bench_.stream().copy(at(values[i]), parts.at(i).data(),
                           plan_.sizes[static_cast<size_t>(values[i])]);
    }
  }

  // Random numbers have about the usual size, because products of zeros take less power and time.
  // Masters get them, too, since the update makes the parameters from them.
  void fill_parameters() {
    const std::vector<float> values = normal_numbers(1 << 16, 0.02F);
    for (ValueId id = 0; id < static_cast<ValueId>(program_.values.size()); ++id) {
      const Value& value = program_.value(id);
      if (value.role == Value::Role::parameter || value.master_of >= 0) {
        fill(bench_.stream(), at(id), plan_.sizes[static_cast<size_t>(id)] / size_of(value.dtype),
             value.dtype, values);
      }
    }
  }

  TimedDevice& bench_;
  Dataset data_;
  std::unique_ptr<Communicator> world_;
  Program program_;
  MemoryPlan plan_;
  MeshGroups groups_;
  std::unique_ptr<Buffer> arena_;
  std::unique_ptr<Buffer> state_;
  StepInputs inputs_;
  std::vector<std::function<void(Stream&)>> issue_;  // by instruction
  std::vector<std::unique_ptr<Event>> start_;
  std::vector<std::unique_ptr<Event>> end_;
};

struct Line {
  Opcode opcode;
  double step_s;   // of all equal ones in a step
  double floor_s;  // of all equal ones in a step
  std::string text;
};

Line line_of(const Rows::value_type& entry, const DeviceRates& rates) {
  const auto& [opcode, dtype, sizes] = entry.first;
  const Row& row = entry.second;
  const double seconds = median(row.seconds);
  const Floor floor = floor_of(opcode, row.work, rates);
  const auto count = static_cast<double>(row.per_step);
  return {
      .opcode = opcode,
      .step_s = count * seconds,
      .floor_s = count * floor.seconds,
      .text = fmt::format("| {} | {} | {} | {} | {:.4g} | {:.4g} | {:.2f} | {:.2f} | {} | {:.2f}",
                          name_of(opcode), name_of(dtype), fmt::join(sizes, " x "), row.per_step,
                          1e-9 * row.work.flops, 1e-6 * row.work.bytes, 1e6 * seconds,
                          1e6 * floor.seconds, floor.by_flops ? "flops" : "bytes",
                          floor.seconds > 0.0 ? seconds / floor.seconds : 0.0)};
}

// Prints the operations with the longest time above their floors, where a step has most to gain.
void print_worst(const std::vector<Line>& lines) {
  std::map<Opcode, double> above;
  for (const Line& line : lines) {
    above[line.opcode] += line.step_s - line.floor_s;
  }
  std::vector<std::pair<Opcode, double>> worst(above.begin(), above.end());
  std::ranges::stable_sort(worst, std::greater<>(), &std::pair<Opcode, double>::second);
  worst.resize(std::min<size_t>(worst.size(), 3));
  std::vector<std::string> names;
  for (const auto& [opcode, seconds] : worst) {
    names.push_back(fmt::format("{}: {}", name_of(opcode), format_seconds(seconds)));
  }
  fmt::print("Furthest above their floors: {}.\n", fmt::join(names, ", "));
}

// Prints the kernels, those with the longest time in a step first.
void print(const Rows& rows, const DeviceRates& rates) {
  std::vector<Line> lines;
  double all_s = 0.0;
  double floors_s = 0.0;
  for (const auto& entry : rows) {
    lines.push_back(line_of(entry, rates));
    all_s += lines.back().step_s;
    floors_s += lines.back().floor_s;
  }
  std::ranges::stable_sort(lines, std::greater<>(), &Line::step_s);
  fmt::print("\n{}\n{}\n",
             "| kernel | type | sizes | in a step | Gflop | MB | us | floor us | bound by | ratio "
             "| % of step |",
             "|---|---|---|---|---|---|---|---|---|---|---|");
  for (const Line& line : lines) {
    fmt::print("{} | {:.1f} |\n", line.text, 100.0 * line.step_s / std::max(all_s, 1e-12));
  }
  fmt::print("\nAll kernels of a step: {}, floors {}, ratio {:.2f}.\n", format_seconds(all_s),
             format_seconds(floors_s), all_s / std::max(floors_s, 1e-12));
  print_worst(lines);
}

void print_head(TimedDevice& bench, const Options& options, const Deck& deck, int64_t arena_bytes) {
  const Device& device = bench.device();
  fmt::print("## Kernels of {} in {}, batch {}\n\n{}, {}. {} of tensors. Set: {}.\n", options.deck,
             deck.model->precision, deck.train->batch, device.description(),
             kernels::matmul_library_version(), format_bytes(arena_bytes),
             fmt::join(options.overrides, ", "));
  if (device.name().find("shim") != std::string::npos) {
    fmt::print("\nThis is the CUDA back end on a CPU, in tests: the figures mean nothing.\n");
  }
  fmt::print(
      "\nBefore each kernel {} are written; the largest cache has {}. Two events with nothing "
      "between them, subtracted: {:.2f} us.\n",
      format_bytes(bench.flush_bytes()),
      device.cache() > 0 ? format_bytes(device.cache()) : "a size that the system does not say",
      1e6 * bench.empty_s());
}

void run(const Options& options) {
  const DeckSource source = read_deck_file(options.deck);
  const Deck deck = parse_decks(&source, nullptr, options.overrides);
  TimedDevice bench(options.threads, options.flush << 20);
  Steps steps(bench, deck);
  print_head(bench, options, deck, steps.arena_bytes());
  const DeviceRates rates = print_rates(bench, options, steps.product_types());
  Rows warm_up;
  steps.run(1, warm_up);
  Rows rows;
  float norm = 0.0F;
  for (int step = 2; step <= options.steps; ++step) {
    norm = steps.run(step, rows);
  }
  print(rows, rates);
  fmt::print("Gradients' norm in the last step: {:.4g}{}.\n", norm,
             std::isfinite(norm) ? "" : ", so the optimizer's times mean nothing");
}

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  hidup::Options options;
  CLI::App app("Times every kernel of a training step against what its bytes and flops could take");
  app.add_option("DECK", options.deck, "Model deck")->required();
  app.add_option("--set", options.overrides, "Override a deck's key: section.key=value")
      ->allow_extra_args(false);
  app.add_option("--threads", options.threads, "Of a CPU");
  app.add_option("--steps", options.steps, "The first warms up")->check(CLI::Range(2, 1000));
  app.add_option("--product", options.product, "Size of the large product")
      ->check(CLI::PositiveNumber);
  app.add_option("--memory", options.megabytes, "MiB of the tensors that tell memory's rate")
      ->check(CLI::PositiveNumber);
  app.add_option(
         "--flush", options.flush,
         "MiB written between instructions; by default twice the device's cache, at least 256")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // keeps printed lines if the program is ended
  try {
    hidup::run(options);
    return 0;
  } catch (const hidup::Error& error) {
    fmt::print(stderr, "bench_kernels: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
