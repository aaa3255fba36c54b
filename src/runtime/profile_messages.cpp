// Times collectives alone and beside computation.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <thread>

#include "core/median.h"
#include "core/with_type.h"
#include "kernels/copy_strided.h"
#include "kernels/matmul.h"
#include "kernels/products.h"
#include "runtime/lone_messages.h"
#include "runtime/profiler.h"
#include "sharding/algorithms.h"

namespace hidup {
namespace {

constexpr std::array kMessages = {Opcode::all_reduce, Opcode::all_gather, Opcode::reduce_scatter,
                                  Opcode::all_to_all, Opcode::broadcast,  Opcode::slice};
constexpr double kSmallest = 64.0;   // bytes
constexpr double kFactor = 4.0;      // between two sizes
constexpr double kShortLoad = 1e-4;  // seconds; shorter products are repeated to take as long
constexpr double kPause = 2.7e-4;    // seconds between messages beside products
// Returns the times that lie in [begin, end].
std::vector<Interval> within(const std::vector<Interval>& times, double begin, double end) {
  std::vector<Interval> within;
  std::ranges::copy_if(times, std::back_inserter(within), [&](const Interval& time) {
    return time.start_s >= begin && time.end_s <= end;
  });
  return within;
}

double total_length(const std::vector<Interval>& times) {
  const std::vector<double> all = lengths(times);
  return std::accumulate(all.begin(), all.end(), 0.0);
}

// Matrix products in the compute stream of this rank.
class Loads {
 public:
  Loads(Device& device, int threads, const ComputeLoad& load)
      : load_(load),
        a_(device.allocate(load.rows * load.summed * size_of(load.dtype))),
        b_(device.allocate(load.summed * load.columns * size_of(load.dtype))),
        c_(device.allocate(load.rows * load.columns * size_of(load.dtype))),
        stream_(device.create_stream("compute", threads)),
        products_(device, *stream_) {
    for (Buffer* buffer : {a_.get(), b_.get(), c_.get()}) {  // the first write maps the pages
      kernels::fill_zero(*stream_, buffer->data(), buffer->bytes());
    }
  }

  void issue(int times) {
    const kernels::MatmulShape shape{.m = load_.rows, .n = load_.columns, .k = load_.summed};
    with_floating_type(load_.dtype, [&](auto zero) {
      using Element = decltype(zero);
      products_.issue(times, {}, [&](Stream& stream) {
        const kernels::BesideMessages here;
        for (int i = 0; i < repetitions_; ++i) {
          kernels::matmul(stream, reinterpret_cast<const Element*>(a_->data()),
                          reinterpret_cast<const Element*>(b_->data()),
                          reinterpret_cast<Element*>(c_->data()), shape, false);
        }
      });
    });
  }
  std::vector<Interval> times() { return products_.times(); }

  // Sets the number of products per load.
  void repeat(int repetitions) { repetitions_ = repetitions; }

 private:
  ComputeLoad load_;
  int repetitions_ = 1;
  std::unique_ptr<Buffer> a_, b_, c_;
  std::unique_ptr<Stream> stream_;
  Repeated products_;
};

class MessageTimer {
 public:
  MessageTimer(Device& device, Communicator& world, const MeshGroups& groups, int threads,
               const ComputeLoad& load, const MessageLimits& limits)
      : world_(world),
        limits_(limits),
        loads_(device, threads, load),
        messages_(device, world, groups, limits.bytes) {
    const double product = time_load();
    constexpr double kMost = 50.0;
    loads_.repeat(static_cast<int>(std::clamp(std::ceil(kShortLoad / product), 1.0, kMost)));
    load_s_ = time_load();
  }

  CollectiveTimes run(size_t axis, const Message& message) {
    CollectiveTimes times{.opcode = message.opcode, .axis = axis, .algorithm = message.algorithm};
    for (double bytes = kSmallest; bytes <= limits_.bytes; bytes *= kFactor) {
      const MessageTime row = measure(message, bytes);
      times.table.push_back(row);
      if (row.beside_s > limits_.seconds) {
        break;
      }
    }
    fit(times);
    return times;
  }

 private:
  // Returns the time of a load while nothing else runs.
  double time_load() {
    loads_.issue(8);
    loads_.times();
    loads_.issue(16);
    return messages_.agreed(median(lengths(loads_.times())));
  }

  MessageTime measure(const Message& message, double bytes) {
    MessageTime time{.bytes = bytes};
    time.alone_s = messages_.alone(limits_.repetitions, message, bytes);
    measure_beside(message, time);
    return time;
  }

  // Times messages that begin at any moment of a product, as in a step. If both share a core, each
  // sometimes waits for the other. The delay depends on how frequent messages are, so pauses are
  // short even where products are long.
  void measure_beside(const Message& message, MessageTime& time) {
    const int sent = 3 * limits_.repetitions;
    const double load = std::min(2.0 * (time.alone_s + kPause) * sent, kPatience);
    world_.barrier();
    loads_.issue(static_cast<int>(std::ceil(load / load_s_)) + 10);
    const auto pause = [] { std::this_thread::sleep_for(std::chrono::duration<double>(kPause)); };
    messages_.issue(sent, pause, message, time.bytes);
    std::vector<Interval> loads = loads_.times();
    std::vector<Interval> messages = messages_.times();
    const double begin = loads.front().start_s;
    const double last = std::min(loads.back().end_s, messages.back().end_s);
    loads = within(loads, begin, last);
    const double end = loads.empty() ? last : loads.back().end_s;  // excludes an unfinished load
    messages = within(messages, begin, end);
    double message_s = time.alone_s;
    double lost_s = 0.0;  // time that the products lose per message
    if (!messages.empty()) {
      const auto count = static_cast<double>(messages.size());
      message_s = total_length(messages) / count;
      lost_s = (end - begin - static_cast<double>(loads.size()) * load_s_) / count;
    }
    time.beside_s = std::max(messages_.agreed(message_s), time.alone_s);
    constexpr double kMost = 0.75;  // largest lost part of a message's time; short ones are noisy
    time.slowdown = 1.0 / (1.0 - std::clamp(messages_.agreed(lost_s) / time.beside_s, 0.0, kMost));
  }

  // Fits latency + bytes / bandwidth by least squares of the relative errors.
  static void fit(CollectiveTimes& times) {
    double one = 0.0;
    double x = 0.0;
    double xx = 0.0;
    double y = 0.0;
    double xy = 0.0;
    for (const MessageTime& row : times.table) {
      const double weight = 1.0 / (row.alone_s * row.alone_s);
      one += weight;
      x += weight * row.bytes;
      xx += weight * row.bytes * row.bytes;
      y += weight * row.alone_s;
      xy += weight * row.bytes * row.alone_s;
    }
    const double slope = (one * xy - x * y) / std::max(one * xx - x * x, 1e-300);
    times.bandwidth = slope > 0.0 ? 1.0 / slope : 0.0;
    times.latency_s = std::max((y - slope * x) / one, 0.0);
  }

  Communicator& world_;
  MessageLimits limits_;
  Loads loads_;
  LoneMessages messages_;
  double load_s_ = 0.0;  // time of a load alone
};

// Returns the algorithms to time, the same on all ranks.
std::vector<CollectiveAlgorithm> timed_algorithms(Opcode opcode, Communicator& group,
                                                  Communicator& world, bool all) {
  std::vector<CollectiveAlgorithm> timed = {CollectiveAlgorithm::automatic};
  for (const CollectiveAlgorithm algorithm : algorithms_of(*spec_of(opcode).reshard)) {
    const bool wanted = all || algorithm == CollectiveAlgorithm::windows;
    if (algorithm == timed[0] || !wanted) {
      continue;
    }
    const int can = group.can_use(algorithm) ? 1 : 0;
    if (std::ranges::min(all_gather_value(world, can)) == 1) {
      timed.push_back(algorithm);
    }
  }
  return timed;
}

}  // namespace

std::vector<CollectiveTimes> time_collectives(Device& device, const MeshGroups& groups,
                                              const Mesh& mesh, Communicator& world, int threads,
                                              const ComputeLoad& load,
                                              const MessageLimits& limits) {
  MessageTimer timer(device, world, groups, threads, load, limits);
  std::vector<CollectiveTimes> times;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    for (const Opcode opcode : kMessages) {
      if (mesh[axis].size == 1) {
        continue;
      }
      Communicator& group = groups.axis(axis);
      for (const CollectiveAlgorithm algorithm :
           timed_algorithms(opcode, group, world, limits.all_algorithms)) {
        times.push_back(timer.run(axis, {opcode, group, algorithm}));
      }
    }
  }
  return times;
}

std::vector<ProbeTimes> time_probes(Device& device, const MeshGroups& groups, Communicator& world,
                                    const std::vector<Probe>& probes) {
  double most_bytes = kSmallest;
  for (const Probe& probe : probes) {
    most_bytes = std::max(most_bytes, probe.bytes);
  }
  LoneMessages messages(device, world, groups, most_bytes);
  std::vector<ProbeTimes> times;
  for (const Probe& probe : probes) {
    std::vector<double> rows;
    while (rows.size() < static_cast<size_t>(probe.rows)) {
      rows.push_back(
          messages.alone(probe.repetitions, {probe.opcode, groups.axis(probe.axis)}, probe.bytes));
    }
    times.push_back({.fastest_s = std::ranges::min(rows), .median_s = median(rows)});
  }
  return times;
}

}  // namespace hidup
