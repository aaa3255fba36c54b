// Every kernel of a training step on one device, at the sizes of a model: its time, the least that
// its bytes and flops could take there, and the ratio, as a Markdown table.
//
//   bench_kernels inputs/models/gpt2-124m.yaml --set train.batch=8 --set model.dropout=0.1
//
// Steps run instruction by instruction. Before each the L2 cache is overwritten; the time is that
// between two events, less that between two events with nothing between them; medians over all
// instructions of an operation and size. The floor of an instruction is the longer of its bytes at
// the rate of a copy (bytes read and written) and, of products, its flops at the rate of a large
// product; both rates are measured first. What an instruction computes and moves is what the cost
// model counts (program/work.h). Built by the target bench_kernels.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/random.h"
#include "core/units.h"
#include "deck/deck.h"
#include "device/device.h"
#include "kernels/copy_strided.h"
#include "kernels/library.h"
#include "kernels/matmul.h"
#include "kernels/step_state.h"
#include "models/transformer.h"
#include "program/lower.h"
#include "program/memory.h"
#include "program/work.h"
#include "runtime/bind.h"
#include "runtime/profiler.h"
#include "search/named/named_strategies.h"
#include "train/inputs.h"
#include "train/setup.h"

namespace hidup {
namespace {

struct Options {
  std::string deck;
  std::vector<std::string> overrides;
  int threads = 1;           // of a CPU
  int steps = 4;             // the first warms up
  int64_t product = 8192;    // rows, columns and summed elements of the large product
  int64_t megabytes = 1024;  // of the copy
  int64_t flush = 256;       // megabytes written between instructions
};

// A device with a stream and what is needed to time work on it.
class Bench {
 public:
  explicit Bench(const Options& options)
      : device_(make_device({})),
        stream_(device_->create_stream("compute", options.threads)),
        flush_(device_->allocate(options.flush << 20)) {
    empty_s_ = 0.0;
    empty_s_ = median(time(20, [](Stream&) {}));
  }

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  double empty_s() const { return empty_s_; }

  // Work given later finds nothing in the caches.
  void flush() {
    kernels::fill_zero(*stream_, flush_->data(), flush_->bytes() / size_of(DType::f32));
  }

  std::unique_ptr<Buffer> random(int64_t elements) {
    const RandomStream numbers = random_stream(1, "bench");
    std::vector<float> values(static_cast<size_t>(std::min<int64_t>(elements, 1 << 20)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = numbers.normal(i);
    }
    std::unique_ptr<Buffer> buffer = device_->allocate(elements * size_of(DType::f32));
    fill(buffer->data(), elements, values);
    return buffer;
  }

  // Repeats the values over that many elements.
  void fill(std::byte* to, int64_t elements, const std::vector<float>& values) {
    const auto period = static_cast<int64_t>(values.size());
    for (int64_t at = 0; at < elements; at += period) {
      stream_->copy(to + at * size_of(DType::f32), values.data(),
                    std::min(period, elements - at) * size_of(DType::f32));
    }
    stream_->synchronize();
  }

  // Seconds of each of `repetitions`, after two more that warm up.
  template <typename Issue>
  std::vector<double> time(int repetitions, Issue issue) {
    std::vector<double> seconds;
    const std::unique_ptr<Event> start = device_->create_event();
    const std::unique_ptr<Event> end = device_->create_event();
    for (int i = -2; i < repetitions; ++i) {
      flush();
      stream_->record(*start);
      issue(*stream_);
      stream_->record(*end);
      stream_->synchronize();
      if (i >= 0) {
        seconds.push_back(net(*start, *end));
      }
    }
    return seconds;
  }

  double net(const Event& start, const Event& end) const {
    return std::max(end.seconds() - start.seconds() - empty_s_, 0.0);
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> flush_;
  double empty_s_;  // between two events with nothing between them
};

struct Rates {
  double flops = 0.0;  // flop/s
  double bytes = 0.0;  // bytes/s, read and written
};

Rates measure_rates(Bench& bench, const Options& options) {
  const int64_t n = options.product;
  const std::unique_ptr<Buffer> a = bench.random(n * n);
  const std::unique_ptr<Buffer> b = bench.random(n * n);
  const std::unique_ptr<Buffer> c = bench.device().allocate(n * n * size_of(DType::f32));
  const auto floats = [](Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); };
  const double product_s = median(bench.time(9, [&](Stream& stream) {
    kernels::matmul(stream, floats(*a), floats(*b), floats(*c), {.m = n, .n = n, .k = n}, false);
  }));
  const int64_t bytes = options.megabytes << 20;
  const std::unique_ptr<Buffer> from = bench.random(bytes / size_of(DType::f32));
  const std::unique_ptr<Buffer> to = bench.device().allocate(bytes);
  const double copy_s =
      median(bench.time(9, [&](Stream& stream) { stream.copy(to->data(), from->data(), bytes); }));
  const auto length = static_cast<double>(n);
  return {2.0 * length * length * length / std::max(product_s, 1e-9),
          2.0 * static_cast<double>(bytes) / std::max(copy_s, 1e-9)};
}

struct Row {
  Work work;
  std::vector<double> seconds;
  int64_t per_step = 0;
};
// By operation and sizes.
using Rows = std::map<std::pair<Opcode, std::vector<int64_t>>, Row>;

// The steps of a model on one rank, instruction by instruction.
class Steps {
 public:
  Steps(Bench& bench, const Deck& deck)
      : bench_(bench),
        data_(open_data(deck)),
        world_(make_self_communicator()),
        program_(lower_on_one_rank(deck, data_.vocab)),
        plan_(plan_memory(program_, 0)),
        groups_(*world_, program_.mesh),
        arena_(bench.device().allocate(plan_.bytes)),
        state_(bench.device().allocate(sizeof(kernels::StepState))) {
    const Binding binding{program_,
                          plan_,
                          0,
                          arena_->data(),
                          reinterpret_cast<const kernels::StepState*>(state_->data()),
                          groups_,
                          1};
    for (const Instruction& instruction : program_.instructions) {
      check(collective_of(instruction.opcode).empty(), "one rank communicates");
      issue_.push_back(bind(instruction, binding));
      start_.push_back(bench.device().create_event());
      end_.push_back(bench.device().create_event());
    }
    fill_parameters();
    fill_inputs(program_, 0, *data_.batches, 0, inputs_);
  }

  int64_t arena_bytes() const { return plan_.bytes; }

  // Adds a step's times.
  void run(int64_t step, Rows& rows) {
    const kernels::StepState state = {.step = static_cast<uint64_t>(step), .learning_rate = 1e-4F};
    bench_.stream().copy(state_->data(), &state, sizeof(state));
    copy_inputs(program_.tokens, inputs_.tokens);
    copy_inputs(program_.targets, inputs_.targets);
    copy_inputs(program_.images, inputs_.images);
    for (size_t i = 0; i < issue_.size(); ++i) {
      bench_.flush();
      bench_.stream().record(*start_[i]);
      issue_[i](bench_.stream());
      bench_.stream().record(*end_[i]);
    }
    bench_.stream().synchronize();
    for (auto& [key, row] : rows) {
      row.per_step = 0;
    }
    for (size_t i = 0; i < issue_.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      Work work = work_of(program_, instruction, 0);
      Row& row = rows[{instruction.opcode, work.sizes}];
      row.work = std::move(work);
      row.seconds.push_back(bench_.net(*start_[i], *end_[i]));
      ++row.per_step;
    }
  }

 private:
  static Program lower_on_one_rank(const Deck& deck, int64_t vocab) {
    const Graph graph = build_model(deck, vocab);
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

  // Random numbers of about the usual size: products of zeros take less power, and less time.
  void fill_parameters() {
    const RandomStream numbers = random_stream(1, "parameters");
    std::vector<float> values(1 << 16);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.02F * numbers.normal(i);
    }
    for (ValueId id = 0; id < static_cast<ValueId>(program_.values.size()); ++id) {
      const Value& value = program_.value(id);
      if (value.role == Value::Role::parameter && value.dtype == DType::f32) {
        bench_.fill(at(id), plan_.sizes[static_cast<size_t>(id)] / size_of(DType::f32), values);
      }
    }
  }

  Bench& bench_;
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

struct Floor {
  double seconds;
  const char* bound;  // by what
};

Floor floor_of(Opcode opcode, const Work& work, const Rates& rates) {
  const double bytes_s = work.bytes / rates.bytes;
  const double flops_s = is_product(opcode) ? work.flops / rates.flops : 0.0;
  return flops_s > bytes_s ? Floor{flops_s, "flops"} : Floor{bytes_s, "bytes"};
}

// The kernels that take most of a step first.
void print(const Rows& rows, const Rates& rates) {
  struct Line {
    double step_s;
    std::string text;
  };
  std::vector<Line> lines;
  double all_s = 0.0;
  double floors_s = 0.0;
  for (const auto& [key, row] : rows) {
    const double seconds = median(row.seconds);
    const Floor floor = floor_of(key.first, row.work, rates);
    const auto count = static_cast<double>(row.per_step);
    all_s += count * seconds;
    floors_s += count * floor.seconds;
    lines.push_back(
        {count * seconds,
         fmt::format("| {} | {} | {} | {:.4g} | {:.4g} | {:.2f} | {:.2f} | {} | {:.2f} |",
                     name_of(key.first), fmt::join(key.second, " x "), row.per_step,
                     1e-9 * row.work.flops, 1e-6 * row.work.bytes, 1e6 * seconds,
                     1e6 * floor.seconds, floor.bound,
                     floor.seconds > 0.0 ? seconds / floor.seconds : 0.0)});
  }
  std::ranges::stable_sort(lines, std::greater<>(), &Line::step_s);
  fmt::print(
      "| kernel | sizes | in a step | Gflop | MB | us | floor us | bound by | ratio | % of step |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Line& line : lines) {
    fmt::print("{} {:.1f} |\n", line.text, 100.0 * line.step_s / std::max(all_s, 1e-12));
  }
  fmt::print("\nAll kernels of a step: {}, floors {}, ratio {:.2f}.\n", format_seconds(all_s),
             format_seconds(floors_s), all_s / std::max(floors_s, 1e-12));
}

void run(const Options& options) {
  const DeckSource source = read_deck_file(options.deck);
  const Deck deck = parse_decks(&source, nullptr, options.overrides);
  Bench bench(options);
  Steps steps(bench, deck);
  fmt::print("## Kernels of {} with batch {}\n\n{}, {}. {} of tensors.\n", options.deck,
             deck.train.batch, bench.device().description(), kernels::matmul_library_version(),
             format_bytes(steps.arena_bytes()));
  if (bench.device().name().find("shim") != std::string::npos) {
    fmt::print("\nThis is the CUDA back end on a CPU, in tests: the figures mean nothing.\n");
  }
  const Rates rates = measure_rates(bench, options);
  fmt::print(
      "\nA product of {0} x {0} x {0}: {1:.4g} Tflop/s. A copy of {2} MiB: {3:.4g} GB/s. Two "
      "events "
      "with nothing between them, subtracted: {4:.2f} us.\n\n",
      options.product, 1e-12 * rates.flops, options.megabytes, 1e-9 * rates.bytes,
      1e6 * bench.empty_s());
  Rows warm_up;
  steps.run(1, warm_up);
  Rows rows;
  for (int step = 2; step <= options.steps; ++step) {
    steps.run(step, rows);
  }
  print(rows, rates);
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
  app.add_option("--copy", options.megabytes, "MiB of the copy")->check(CLI::PositiveNumber);
  app.add_option("--flush", options.flush, "MiB written between instructions")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    hidup::run(options);
    return 0;
  } catch (const hidup::Error& error) {
    fmt::print(stderr, "bench_kernels: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
