// What a rank computes on: streams of ordered work, events between them, memory.
//
// The meaning is CUDA's, so that the same runtime drives a GPU: work on one
// stream runs in the order it was given; streams run beside each other; only an
// event orders two streams. On a CPU a stream is a worker thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/version.h"

namespace hidup {

// A point in the work of a stream.
class Event {
 public:
  virtual ~Event() = default;
  // When the last recording was reached, in seconds on monotonic_seconds()'s
  // clock. Valid once the recording stream has been synchronized.
  virtual double seconds() const = 0;
  // Whether the last recording was reached; from any thread.
  virtual bool reached() const = 0;
};

// Work in order. Every call returns at once; the work runs later.
class Stream {
 public:
  virtual ~Stream() = default;
  // Runs `task` on the host, in stream order. An exception it throws is kept:
  // all later work of the device is dropped, and synchronize() throws it.
  virtual void enqueue(std::function<void()> task) = 0;
  // Copies `bytes` between host and device memory, either way, in stream order;
  // both ends must stay valid until it ran.
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  // Marks the event when all work given so far is done.
  virtual void record(Event& event) = 0;
  // Later work of this stream waits for the event's last recording.
  virtual void wait(Event& event) = 0;
  // Host memory of that many bytes, for what this stream copies between the device and host tasks
  // that cannot reach the device's memory; null where they can. Work given before may still use it,
  // so it is for work in the order of this stream alone.
  virtual std::byte* staging(int64_t bytes) = 0;
  // Blocks the host until all work is done. Throws what the work threw.
  virtual void synchronize() = 0;
  // The same until this stream's last recording of the event is reached; later work goes on.
  virtual void synchronize(Event& event) = 0;
};

// Work that streams were given once, to be done any number of times.
class Recording {
 public:
  virtual ~Recording() = default;
  // Gives it to the first of its streams, which does it as they all did: in the order of each,
  // waits for events kept. It begins when work given to that stream before
  // is done and ends before work given to it later; the other streams have no part in it.
  virtual void replay() = 0;
};

// Memory of the device or of the host, zeroed, aligned to kAlignment bytes.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::byte* data() = 0;
  virtual int64_t bytes() const = 0;
  // The descriptor of a file that is mapped there from its start, which other processes of the host
  // can map, too; -1 of other memory.
  virtual int file() const { return -1; }
};

inline constexpr int64_t kAlignment = 256;  // bytes; a GPU's, and four cache lines

// The kind that make_device() knows: "cpu" or "cuda". One per binary, as it was linked.
std::string device_kind();

struct DeviceOptions {
  std::string kind = device_kind();
  int64_t memory = 0;  // bytes a rank may use; 0: what the machine has
  // This rank among those of its host: where a process sees several devices, ranks take them in
  // turn.
  int local_rank = 0;
  int sharing = 1;  // ranks that take the same device, and divide its memory
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  // Which one it is, for people: "NVIDIA H200 0000:1b:00.0". Ranks of a host that share a device
  // have equal ones.
  virtual std::string description() const = 0;
  // Bytes that this rank may use.
  virtual int64_t memory() const = 0;
  // From now on memory() is this rank's part of what is free now, less a reserve for what libraries
  // take later. Nothing changes where the options have the memory, and for CPU ranks.
  virtual void take_free_memory() = 0;
  // Bytes of the largest cache before the memory; 0 where the system does not say.
  virtual int64_t cache() const = 0;
  // Throws Error(out_of_memory) with both figures where `bytes` cannot be had.
  virtual std::unique_ptr<Buffer> allocate(int64_t bytes) = 0;
  // The same; of memory that is the mapping of a file (Buffer::file()) where the device has such.
  virtual std::unique_ptr<Buffer> allocate_shared(int64_t bytes) { return allocate(bytes); }
  // Memory of the host: a stream copies between it and the device while the host goes on, which it
  // may not do with other memory.
  virtual std::unique_ptr<Buffer> allocate_host(int64_t bytes) = 0;
  // Bytes of all buffers of the device that live.
  virtual int64_t allocated() const = 0;
  // `threads`: size of the OpenMP team that work on this stream may use.
  virtual std::unique_ptr<Stream> create_stream(const std::string& name, int threads) = 0;
  virtual std::unique_ptr<Event> create_event() = 0;
  // Whether work of a stream is known to have failed, so that nothing more is done; from any
  // thread. For work that waits for more than events.
  virtual bool failed() const { return false; }
  // Records what `issue` gives to the streams, instead of doing it; null, and `issue` is not
  // called, where the back end cannot. `issue` runs on this thread; it gives work to these streams
  // only, waits for events that it recorded itself, and neither synchronizes nor needs memory that
  // was not there before: all of it ran once before. Throws what `issue` throws. The recording ends
  // before the streams and events do.
  // `timed`: every replay renews the times of events. Otherwise they only order the streams: when
  // they were reached, and whether, is not renewed.
  virtual std::unique_ptr<Recording> record(std::span<Stream* const> streams, bool timed,
                                            const std::function<void()>& issue) = 0;
};

// Throws Error(unavailable) for another kind than device_kind(), and where the machine has no such
// device.
std::unique_ptr<Device> make_device(const DeviceOptions& options);

// Which device make_device() takes, by where it is in its host: equal for the ranks of a host that
// share one, however each of them counts what it sees. Empty where there is none, and for CPU
// ranks, which do not divide anything.
std::string device_place(const DeviceOptions& options);

// What the back end stands on.
std::vector<LibraryVersion> device_libraries();

// Seconds on the process's monotonic clock; every timing here is on it.
double monotonic_seconds();

}  // namespace hidup
