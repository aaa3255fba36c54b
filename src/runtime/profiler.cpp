#include "runtime/profiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "comm/collective.h"
#include "core/median.h"

namespace hidup {

bool OperationTimer::lacks_any_of(const Program& program, int64_t rank) const {
  const std::vector<int> distinct = alike_instructions(program, rank).first;
  return std::ranges::any_of(distinct, [&](int i) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
    return collective_of(instruction.opcode).empty() &&
           !ran_.contains(key_of(instruction, work_of(program, instruction, rank)));
  });
}

void OperationTimer::run(Executor& executor, int64_t rank, const StepInputs& inputs, int steps,
                         Executor::Order order) {
  const Program& program = executor.program();
  for (const int i : alike_instructions(program, rank).first) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
    ran_.insert(key_of(instruction, work_of(program, instruction, rank)));
  }
  for (int step = 0; step <= steps; ++step) {
    executor.start(step + 1, 0.0, inputs, order);
    executor.wait();
    for (size_t i = 0; step > 0 && i < program.instructions.size(); ++i) {  // step 0 warms up
      const Instruction& instruction = program.instructions[i];
      if (!collective_of(instruction.opcode).empty()) {
        continue;
      }
      Work work = executor.work_done(i);
      Samples& samples = samples_[key_of(instruction, work)];
      samples.work = std::move(work);
      samples.seconds.push_back(executor.times()[i].end_s - executor.times()[i].start_s);
    }
  }
}

std::vector<OperationTime> OperationTimer::times() const {
  std::vector<OperationTime> times;
  for (const auto& [key, samples] : samples_) {
    times.push_back({std::get<Opcode>(key), samples.work, median(samples.seconds)});
  }
  return times;
}

void take_slowest(Communicator& world, const std::vector<int64_t>& classes,
                  std::vector<OperationTime>& times) {
  const auto name = [](const OperationTime& time) {
    return fmt::format("{}/{}/{}", name_of(time.opcode), name_of(time.work.dtype),
                       fmt::join(time.work.sizes, "x"));
  };
  std::string mine;
  for (const OperationTime& time : times) {
    mine += fmt::format("{} {}\n", name(time), time.seconds);
  }
  const size_t count = classes.empty() ? 1 : static_cast<size_t>(std::ranges::max(classes)) + 1;
  std::map<std::string, std::vector<double>> slowest;                // by class
  const std::vector<std::string> texts = gather_texts(world, mine);  // empty except on rank 0
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const size_t number = classes.empty() ? 0 : static_cast<size_t>(classes.at(rank));
    std::istringstream words(texts[rank]);
    double seconds = 0.0;
    for (std::string operation; words >> operation >> seconds;) {
      std::vector<double>& of_classes = slowest[operation];
      of_classes.resize(count);
      of_classes[number] = std::max(of_classes[number], seconds);
    }
  }
  for (OperationTime& time : times) {
    if (const auto found = slowest.find(name(time)); found != slowest.end()) {
      time.seconds = std::ranges::max(found->second);
      time.by_class = classes.empty() ? std::vector<double>() : found->second;
    }
  }
}

std::map<std::vector<int64_t>, int> fastest_algorithms(
    Communicator& world, const std::vector<kernels::AlgorithmTimes>& measured) {
  constexpr double kWorthIt = 0.98;  // of the first one's time; smaller gains vary between runs
  std::string mine;
  for (const auto& [product, seconds] : measured) {
    mine += fmt::format("{} {} {} {}\n", product.size(), fmt::join(product, " "), seconds.size(),
                        fmt::join(seconds, " "));
  }
  std::map<std::vector<int64_t>, std::vector<double>> slowest;
  for (const std::string& text : gather_texts(world, mine)) {  // empty on other ranks than 0
    std::istringstream numbers(text);
    for (size_t count = 0; numbers >> count;) {
      std::vector<int64_t> product(count);
      std::ranges::for_each(product, [&](int64_t& number) { numbers >> number; });
      numbers >> count;
      std::vector<double>& times = slowest[product];
      times.resize(std::max(times.size(), count));
      for (size_t i = 0; i < count; ++i) {
        double seconds = 0.0;
        numbers >> seconds;
        times[i] = std::max(times[i], seconds);
      }
    }
  }
  std::map<std::vector<int64_t>, int> fastest;
  for (const auto& [product, times] : slowest) {
    const auto best = std::ranges::min_element(times);
    if (*best < kWorthIt * times.front()) {
      fastest[product] = static_cast<int>(best - times.begin());
    }
  }
  return fastest;
}

namespace {

// Returns the load of any product. The rows of an expert product count together.
ComputeLoad load_of(const Work& work) {
  const size_t count = work.sizes.size();
  return {.dtype = work.dtype,
          .rows = work.sizes[0] * (count == 4 ? work.sizes[1] : 1),
          .summed = work.sizes[count - 2],
          .columns = work.sizes[count - 1]};
}

}  // namespace

ComputeLoad heaviest_load(const std::vector<OperationTime>& operations) {
  constexpr double kLongest = 1e-3;  // seconds
  const OperationTime* heaviest = nullptr;
  const OperationTime* shortest = nullptr;
  for (const OperationTime& time : operations) {
    if (!spec_of(time.opcode).product || time.work.flops == 0.0) {
      continue;
    }
    if (shortest == nullptr || time.seconds < shortest->seconds) {
      shortest = &time;
    }
    if (time.seconds <= kLongest &&
        (heaviest == nullptr || time.work.flops > heaviest->work.flops)) {
      heaviest = &time;
    }
  }
  if (shortest == nullptr) {
    return {};
  }
  ComputeLoad load = load_of((heaviest != nullptr ? heaviest : shortest)->work);
  if (heaviest == nullptr) {
    const double part = kLongest / shortest->seconds;
    load.rows = std::max(static_cast<int64_t>(part * static_cast<double>(load.rows)), int64_t{1});
  }
  return load;
}

void Gaps::add(const Program& program, const RankSteps& steps, std::span<const Interval> times) {
  double stream_end[kStreams] = {};
  for (size_t i = 0; i < times.size(); ++i) {
    if (!steps.runs(i)) {
      continue;
    }
    const Instruction& instruction = program.instructions[i];
    double& before = stream_end[static_cast<size_t>(instruction.stream)];
    double awaited = 0.0;
    steps.for_waits(instruction, [&](int wait) {
      awaited = std::max(awaited, times[static_cast<size_t>(wait)].end_s);
    });
    if (awaited > before) {
      signal_s.push_back(times[i].start_s - awaited);
    } else if (before > 0.0) {
      launch_s.push_back(times[i].start_s - before);
    }
    before = times[i].end_s;
  }
}

}  // namespace hidup
