// Messages that a profile times; for the profiler's sources only.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/median.h"
#include "cost/busy.h"
#include "kernels/copy_strided.h"
#include "program/opcodes.h"
#include "runtime/mesh_groups.h"
#include "runtime/profiler.h"

namespace hidup {

inline constexpr int64_t kMessageElement = 4;  // bytes
inline constexpr double kPatience = 1.0;       // seconds that a measurement may take
// Seconds. Ranks of several hosts leave a barrier up to 0.1 ms apart, which hardly changes the time
// of a message of this length.
inline constexpr double kLong = 1e-3;
// Messages rotate through this much memory, more than the last-level cache of a CPU, so that none
// finds its data in a cache; in a step, other tensors are used between two messages. Measured with
// a cache of 32 MiB: an all-gather of 4 MiB between two processes takes 0.40 ms, as in a step, but
// 0.21 ms if it reuses one place. Half or twice as much memory changes nothing there.
inline constexpr int64_t kMoved = int64_t{64} << 20;  // bytes

// Repeats work in a stream and measures when each repetition ran.
class Repeated {
 public:
  Repeated(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  // Issues the work `times` times. `before`: an untimed host task in the stream before each
  // repetition; may be empty.
  template <typename Issue>
  void issue(int times, const std::function<void()>& before, Issue what) {
    count_ = static_cast<size_t>(times);
    while (starts_.size() < count_) {
      starts_.push_back(device_.create_event());
      ends_.push_back(device_.create_event());
    }
    for (size_t i = 0; i < count_; ++i) {
      if (before) {
        stream_.enqueue(before);
      }
      stream_.record(*starts_[i]);
      what(stream_);
      stream_.record(*ends_[i]);
    }
  }
  // Waits for all repetitions and returns when they ran.
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

inline std::vector<double> lengths(const std::vector<Interval>& times) {
  std::vector<double> lengths;
  lengths.reserve(times.size());
  for (const Interval& time : times) {
    lengths.push_back(time.end_s - time.start_s);
  }
  return lengths;
}

// A collective of a group by an algorithm, or a local copy (Opcode::slice).
struct Message {
  Opcode opcode;
  Communicator& group;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
};

// Messages in the communication streams of the ranks while nothing else runs.
class LoneMessages {
 public:
  // `most_bytes`: size of the largest message. Buffers are shared within a host, as in a step.
  LoneMessages(Device& device, Communicator& world, const MeshGroups& groups, double most_bytes)
      : world_(world),
        stream_(device.create_stream("comm", 1)),
        messages_(device, *stream_),
        moved_(std::min(kMoved, device.memory() / 8)),
        send_(device.allocate_shared(static_cast<int64_t>(most_bytes) * 2 + moved_)),
        receive_(device.allocate_shared(static_cast<int64_t>(most_bytes) + moved_)),
        registered_{groups.register_memory(*send_), groups.register_memory(*receive_)} {
    for (Buffer* buffer : {send_.get(), receive_.get()}) {  // the first write maps the pages
      kernels::fill_zero(*stream_, buffer->data(), buffer->bytes());
    }
    stream_->synchronize();
  }

  // Issues a message `times` times. `before`: as in Repeated::issue().
  void issue(int times, const std::function<void()>& before, const Message& message, double bytes) {
    Communicator& group = message.group;
    const Opcode opcode = message.opcode;
    const CollectiveAlgorithm algorithm = message.algorithm;
    const auto count = static_cast<int64_t>(bytes) / kMessageElement;
    const auto peers = static_cast<size_t>(group.size());
    std::vector<int64_t> parts(peers, count / group.size());
    parts[0] += count % group.size();
    // The copy takes every second row of 64 elements, like the packing of a part of a tensor.
    constexpr int64_t kRow = 64;
    const kernels::StridedCopy rows{
        .dims = 2,
        .extent = {std::max<int64_t>(count / kRow, 1), std::min(count, kRow)},
        .from_stride = {2 * kRow, 1},
        .to_stride = {kRow, 1}};
    const std::string name(name_of(opcode));
    const std::vector<int64_t> mine(peers, parts[static_cast<size_t>(group.rank())]);
    messages_.issue(times, before, [&](Stream& stream) {
      const int64_t at = next_place(2 * count * kMessageElement);
      auto* send = reinterpret_cast<float*>(send_->data() + at);
      auto* receive = reinterpret_cast<float*>(receive_->data() + at);
      switch (opcode) {
        case Opcode::all_reduce:
          return group.all_reduce(stream, receive, count, DType::f32, algorithm, name);
        case Opcode::all_gather:
          return group.all_gather(stream, send, receive, parts, DType::f32, algorithm, name);
        case Opcode::reduce_scatter:
          return group.reduce_scatter(stream, send, receive, parts, DType::f32, algorithm, name);
        case Opcode::all_to_all:
          return group.all_to_all(stream, send, parts, receive, mine, DType::f32, algorithm, name);
        case Opcode::broadcast:
          return group.broadcast(stream, receive, count, 0, DType::f32, name);
        default:
          return kernels::copy_strided(stream, send, receive, rows);
      }
    });
  }

  std::vector<Interval> times() { return messages_.times(); }

  // Returns the median time of `times` messages after a warm-up, averaged over all ranks. Sends
  // fewer if they would exceed kPatience. Ranks begin long messages together, as in a step:
  // otherwise they drift apart, and a link that ranks of a host share idles.
  double alone(int times, const Message& message, double bytes) {
    issue(1, {}, message, bytes);
    const double first = agreed(lengths(messages_.times())[0]);
    std::function<void()> begin_together;
    if (first > kLong && message.opcode != Opcode::slice && message.group.through_host()) {
      begin_together = [&group = message.group] { group.barrier(); };
    }
    const double affordable = std::clamp(kPatience / first, 1.0, static_cast<double>(times));
    world_.barrier();
    issue(static_cast<int>(affordable), begin_together, message, bytes);
    return agreed(median(lengths(messages_.times())));
  }

  // Returns the mean over all ranks, so that all make the same decisions.
  double agreed(double mine) {
    double sum = 0.0;
    for (const double value : all_gather_value(world_, mine)) {
      sum += value;
    }
    return sum / world_.size();
  }

 private:
  // Returns the offset of the next message in both buffers: after the last one, or back at 0.
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
  std::array<std::vector<std::shared_ptr<void>>, 2> registered_;
};

}  // namespace hidup
