// How long collectives take, alone and beside computation.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <thread>

#include "core/with_type.h"
#include "kernels/copy_strided.h"
#include "kernels/matmul.h"
#include "kernels/products.h"
#include "runtime/profiler.h"

namespace hidup {
namespace {

constexpr std::array kMessages = {Opcode::all_reduce, Opcode::all_gather, Opcode::reduce_scatter,
                                  Opcode::all_to_all, Opcode::broadcast,  Opcode::slice};
constexpr int64_t kElement = 4;      // bytes
constexpr double kSmallest = 64.0;   // bytes
constexpr double kFactor = 4.0;      // between two sizes
constexpr double kShortLoad = 1e-4;  // seconds; shorter products are repeated to take as long
constexpr double kPause = 2.7e-4;    // seconds between messages beside products
constexpr double kPatience = 1.0;    // seconds that a measurement may take
// Messages take turns with their places in so much memory, so that none finds its data in a cache:
// in a step other tensors come between two messages. Above the last level of caches of a CPU.
// Measured with 32 MiB of them: an all-gather of 4 MiB between two processes takes 0.40 ms so, as
// in a step; at one place 0.21 ms. Half or twice as much changes nothing there.
constexpr int64_t kMoved = int64_t{64} << 20;  // bytes

// Work that a stream repeats, and when each repetition ran.
class Repeated {
 public:
  Repeated(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  // pause_s: that the stream idles before each.
  template <typename Issue>
  void issue(int times, double pause_s, Issue what) {
    count_ = static_cast<size_t>(times);
    while (starts_.size() < count_) {
      starts_.push_back(device_.create_event());
      ends_.push_back(device_.create_event());
    }
    for (size_t i = 0; i < count_; ++i) {
      if (pause_s > 0.0) {
        stream_.enqueue(
            [=] { std::this_thread::sleep_for(std::chrono::duration<double>(pause_s)); });
      }
      stream_.record(*starts_[i]);
      what(stream_);
      stream_.record(*ends_[i]);
    }
  }
  // Waits for all.
  std::vector<Interval> times() {
    stream_.synchronize();
    std::vector<Interval> times;
    for (size_t i = 0; i < count_; ++i) {
      times.push_back({starts_[i]->seconds(), ends_[i]->seconds()});
    }
    return times;
  }

 private:
  Device& device_;
  Stream& stream_;
  size_t count_ = 0;
  std::vector<std::unique_ptr<Event>> starts_, ends_;
};

std::vector<double> lengths(const std::vector<Interval>& times) {
  std::vector<double> lengths;
  lengths.reserve(times.size());
  for (const Interval& time : times) {
    lengths.push_back(time.end_s - time.start_s);
  }
  return lengths;
}

// Those that lie in [begin, end].
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

// Messages of the ranks' communication streams, while nothing else runs.
class LoneMessages {
 public:
  // most_bytes: of the largest.
  LoneMessages(Device& device, Communicator& world, double most_bytes)
      : world_(world),
        stream_(device.create_stream("comm", 1)),
        messages_(device, *stream_),
        moved_(std::min(kMoved, device.memory() / 8)),
        send_(device.allocate(static_cast<int64_t>(most_bytes) * 2 + moved_)),
        receive_(device.allocate(static_cast<int64_t>(most_bytes) + moved_)) {
    for (Buffer* buffer : {send_.get(), receive_.get()}) {  // pages come with the first write
      kernels::fill_zero(*stream_, buffer->data(), buffer->bytes());
    }
    stream_->synchronize();
  }

  // pause_s: that the stream idles before each.
  void issue(int times, double pause_s, Opcode opcode, Communicator& group, double bytes) {
    const auto count = static_cast<int64_t>(bytes) / kElement;
    const auto peers = static_cast<size_t>(group.size());
    std::vector<int64_t> parts(peers, count / group.size());
    parts[0] += count % group.size();
    // Every second row of 64 elements, as a message that is cut from a tensor.
    constexpr int64_t kRow = 64;
    const kernels::StridedCopy rows{
        .dims = 2,
        .extent = {std::max<int64_t>(count / kRow, 1), std::min(count, kRow)},
        .from_stride = {2 * kRow, 1},
        .to_stride = {kRow, 1}};
    const std::string name(name_of(opcode));
    const std::vector<int64_t> mine(peers, parts[static_cast<size_t>(group.rank())]);
    messages_.issue(times, pause_s, [&](Stream& stream) {
      const int64_t at = next_place(2 * count * kElement);
      auto* send = reinterpret_cast<float*>(send_->data() + at);
      auto* receive = reinterpret_cast<float*>(receive_->data() + at);
      switch (opcode) {
        case Opcode::all_reduce:
          return group.all_reduce(stream, receive, count, DType::f32,
                                  CollectiveAlgorithm::automatic, name);
        case Opcode::all_gather:
          return group.all_gather(stream, send, receive, parts, DType::f32,
                                  CollectiveAlgorithm::automatic, name);
        case Opcode::reduce_scatter:
          return group.reduce_scatter(stream, send, receive, parts, DType::f32,
                                      CollectiveAlgorithm::automatic, name);
        case Opcode::all_to_all:
          return group.all_to_all(stream, send, parts, receive, mine, DType::f32,
                                  CollectiveAlgorithm::automatic, name);
        case Opcode::broadcast:
          return group.broadcast(stream, receive, count, 0, DType::f32, name);
        default:
          return kernels::copy_strided(stream, send, receive, rows);
      }
    });
  }

  std::vector<Interval> times() { return messages_.times(); }

  // The median of several in a row, behind one that warms up; the mean over all ranks. The row is
  // shorter where it would take more than the patience.
  double alone(int times, Opcode opcode, Communicator& group, double bytes) {
    issue(1, 0.0, opcode, group, bytes);
    const double first = agreed(lengths(messages_.times())[0]);
    const double affordable = std::clamp(kPatience / first, 1.0, static_cast<double>(times));
    world_.barrier();
    issue(static_cast<int>(affordable), 0.0, opcode, group, bytes);
    return agreed(median(lengths(messages_.times())));
  }

  // The mean over all ranks, so that all decide alike.
  double agreed(double mine) {
    double sum = 0.0;
    for (const double value : all_gather_value(world_, mine)) {
      sum += value;
    }
    return sum / world_.size();
  }

 private:
  // Where in both buffers a message lies: behind the one before, in turn.
  int64_t next_place(int64_t bytes) {
    const int64_t place = next_;
    const int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    next_ = next_ + rounded < moved_ ? next_ + rounded : 0;
    return place;
  }

  Communicator& world_;
  std::unique_ptr<Stream> stream_;
  Repeated messages_;
  int64_t moved_;
  int64_t next_ = 0;  // below moved_
  std::unique_ptr<Buffer> send_;
  std::unique_ptr<Buffer> receive_;
};

// Matrix products of the ranks' compute streams.
class Loads {
 public:
  Loads(Device& device, int threads, const ComputeLoad& load)
      : load_(load),
        a_(device.allocate(load.rows * load.summed * size_of(load.dtype))),
        b_(device.allocate(load.summed * load.columns * size_of(load.dtype))),
        c_(device.allocate(load.rows * load.columns * size_of(load.dtype))),
        stream_(device.create_stream("compute", threads)),
        products_(device, *stream_) {
    for (Buffer* buffer : {a_.get(), b_.get(), c_.get()}) {  // pages come with the first write
      kernels::fill_zero(*stream_, buffer->data(), buffer->bytes());
    }
  }

  void issue(int times) {
    const kernels::MatmulShape shape{.m = load_.rows, .n = load_.columns, .k = load_.summed};
    with_floating_type(load_.dtype, [&](auto zero) {
      using Element = decltype(zero);
      products_.issue(times, 0.0, [&](Stream& stream) {
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

  // From now on a load is so many products.
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
  MessageTimer(Device& device, Communicator& world, int threads, const ComputeLoad& load,
               const MessageLimits& limits)
      : world_(world),
        limits_(limits),
        loads_(device, threads, load),
        messages_(device, world, limits.bytes) {
    const double product = time_load();
    constexpr double kMost = 50.0;
    loads_.repeat(static_cast<int>(std::clamp(std::ceil(kShortLoad / product), 1.0, kMost)));
    load_s_ = time_load();
  }

  CollectiveTimes run(Opcode opcode, size_t axis, Communicator& group) {
    CollectiveTimes times{.opcode = opcode, .axis = axis};
    for (double bytes = kSmallest; bytes <= limits_.bytes; bytes *= kFactor) {
      const MessageTime row = measure(opcode, group, bytes);
      times.table.push_back(row);
      if (row.beside_s > limits_.seconds) {
        break;
      }
    }
    fit(times);
    return times;
  }

 private:
  // Of one, while nothing else runs.
  double time_load() {
    loads_.issue(8);
    loads_.times();
    loads_.issue(16);
    return messages_.agreed(median(lengths(loads_.times())));
  }

  MessageTime measure(Opcode opcode, Communicator& group, double bytes) {
    MessageTime time{.bytes = bytes};
    time.alone_s = messages_.alone(limits_.repetitions, opcode, group, bytes);
    measure_beside(opcode, group, time);
    return time;
  }

  // Messages that begin at any moment of a product, as in a step: where the two share a core, each
  // waits for the other now and then. How long depends on how often there are messages, so pauses
  // are short even where products are long.
  void measure_beside(Opcode opcode, Communicator& group, MessageTime& time) {
    const int sent = 3 * limits_.repetitions;
    const double load = std::min(2.0 * (time.alone_s + kPause) * sent, kPatience);
    world_.barrier();
    loads_.issue(static_cast<int>(std::ceil(load / load_s_)) + 10);
    messages_.issue(sent, kPause, opcode, group, time.bytes);
    std::vector<Interval> loads = loads_.times();
    std::vector<Interval> messages = messages_.times();
    const double begin = loads.front().start_s;
    const double last = std::min(loads.back().end_s, messages.back().end_s);
    loads = within(loads, begin, last);
    const double end = loads.empty() ? last : loads.back().end_s;  // a part of one is not lost
    messages = within(messages, begin, end);
    double message_s = time.alone_s;
    double lost_s = 0.0;  // by the products, per message
    if (!messages.empty()) {
      const auto count = static_cast<double>(messages.size());
      message_s = total_length(messages) / count;
      lost_s = (end - begin - static_cast<double>(loads.size()) * load_s_) / count;
    }
    time.beside_s = std::max(messages_.agreed(message_s), time.alone_s);
    constexpr double kMost = 0.75;  // of a message's time can be lost: noise of short ones
    time.slowdown = 1.0 / (1.0 - std::clamp(messages_.agreed(lost_s) / time.beside_s, 0.0, kMost));
  }

  // Least squares of the relative errors of latency + bytes / bandwidth.
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
  double load_s_ = 0.0;  // of a load alone
};

// The largest all_reduce of the axis that takes no longer than this; the smallest where all do.
// 0: none was timed.
double largest_all_reduce(const std::vector<CollectiveTimes>& collectives, size_t axis,
                          double seconds) {
  double bytes = 0.0;
  for (const CollectiveTimes& times : collectives) {
    if (times.opcode == Opcode::all_reduce && times.axis == axis) {
      for (const MessageTime& row : times.table) {
        bytes = bytes == 0.0 || row.alone_s <= seconds ? row.bytes : bytes;
      }
    }
  }
  return bytes;
}

// A row of messages with all groups of the axis at once, over the same of one group alone: the
// later of its first and its last, since groups are taken to be alike. A row counts from the start
// of the first rank to the end of the last: a link need not divide itself evenly between two rows,
// and ranks may start late. Of some such times the least counts: other work only adds to them.
double time_at_once(LoneMessages& messages, Communicator& world, const MeshGroups& groups,
                    const Mesh& mesh, size_t axis, double bytes) {
  constexpr int kTimes = 3;
  constexpr int kInARow = 4;
  const auto first_rank = [&](int64_t rank) { return group_of(mesh, rank, axis)[0]; };
  const int64_t mine = first_rank(world.rank());
  const auto row = [&](bool takes_part) {
    world.barrier();
    const double began = monotonic_seconds();
    if (takes_part) {
      messages.issue(kInARow, 0.0, Opcode::all_reduce, groups.axis(axis), bytes);
      messages.times();
    }
    world.barrier();
    return std::ranges::max(all_gather_value(world, monotonic_seconds() - began));
  };
  row(true);  // warms up
  double at_once = std::numeric_limits<double>::max();
  double alone = at_once;
  for (int i = 0; i < kTimes; ++i) {
    at_once = std::min(at_once, row(true));
    const double first = row(mine == first_rank(0));
    const double last = row(mine == first_rank(world.size() - 1));
    alone = std::min(alone, std::max(first, last));
  }
  return at_once / alone;
}

}  // namespace

std::vector<CollectiveTimes> time_collectives(Device& device, const MeshGroups& groups,
                                              const Mesh& mesh, Communicator& world, int threads,
                                              const ComputeLoad& load,
                                              const MessageLimits& limits) {
  MessageTimer timer(device, world, threads, load, limits);
  std::vector<CollectiveTimes> times;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    for (const Opcode opcode : kMessages) {
      if (mesh[axis].size > 1) {
        times.push_back(timer.run(opcode, axis, groups.axis(axis)));
      }
    }
  }
  return times;
}

std::map<size_t, double> time_sharing(Device& device, const MeshGroups& groups, const Mesh& mesh,
                                      Communicator& world,
                                      const std::vector<CollectiveTimes>& collectives,
                                      double seconds) {
  constexpr double kClear = 1.4;  // a link of two groups gives 1.5 to 2; memory of one host 1.3
  std::map<size_t, double> sizes;
  double most_bytes = 0.0;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    const double bytes = largest_all_reduce(collectives, axis, seconds);
    if (bytes > 0.0 && mesh[axis].size < world.size()) {
      sizes[axis] = bytes;
      most_bytes = std::max(most_bytes, bytes);
    }
  }
  std::map<size_t, double> shared;
  if (sizes.empty()) {
    return shared;
  }
  LoneMessages messages(device, world, most_bytes);
  for (const auto& [axis, bytes] : sizes) {
    const double longer = time_at_once(messages, world, groups, mesh, axis, bytes);
    if (longer > kClear) {
      shared[axis] = longer;
    }
  }
  return shared;
}

std::vector<ProbeTimes> time_probes(Device& device, const MeshGroups& groups, Communicator& world,
                                    const std::vector<Probe>& probes) {
  double most_bytes = kSmallest;
  for (const Probe& probe : probes) {
    most_bytes = std::max(most_bytes, probe.bytes);
  }
  LoneMessages messages(device, world, most_bytes);
  std::vector<ProbeTimes> times;
  for (const Probe& probe : probes) {
    std::vector<double> rows;
    while (rows.size() < static_cast<size_t>(probe.rows)) {
      rows.push_back(
          messages.alone(probe.repetitions, probe.opcode, groups.axis(probe.axis), probe.bytes));
    }
    times.push_back({.fastest_s = std::ranges::min(rows), .median_s = median(rows)});
  }
  return times;
}

}  // namespace hidup
