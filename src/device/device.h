// A rank's compute device: streams of ordered work, events between them, memory.
//
// The semantics are CUDA's, so that the same runtime drives a GPU: work on one stream runs in the
// order in which it was enqueued, streams run concurrently, and only an event orders two streams.
// On a CPU a stream is a worker thread.
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
  // Returns the time at which the stream reached the last recording, in seconds on
  // monotonic_seconds()'s clock. Valid once the recording stream has been synchronized.
  virtual double seconds() const = 0;
  // Returns true once the stream has reached the last recording. Any thread may call it.
  virtual bool reached() const = 0;
};

// A queue of work that runs in order. Calls but synchronize() return at once; the work runs later.
class Stream {
 public:
  virtual ~Stream() = default;
  // Runs `task` on the host, in stream order. If it throws, all later work of the device is dropped
  // and synchronize() rethrows the exception.
  virtual void enqueue(std::function<void()> task) = 0;
  // Copies `bytes` between host and device memory, in either direction, in stream order. Both ends
  // must stay valid until the copy has run.
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  // Marks the event when all work enqueued so far is done.
  virtual void record(Event& event) = 0;
  // Makes later work of this stream wait for the event's last recording.
  virtual void wait(Event& event) = 0;
  // Returns `bytes` of host memory, through which this stream copies between the device and host
  // tasks that cannot access device memory; returns null where they can. Work enqueued earlier may
  // still use the memory, so only work in the order of this stream may touch it.
  virtual std::byte* staging(int64_t bytes) = 0;
  // Blocks the host until all work is done. Throws the exception that the work threw.
  virtual void synchronize() = 0;
  // Blocks the host until this stream reaches its last recording of the event; later work goes on.
  virtual void synchronize(Event& event) = 0;
};

// Work that was enqueued on streams once and can be replayed any number of times.
class Recording {
 public:
  virtual ~Recording() = default;
  // Enqueues the recorded work on the first of its streams. The work keeps the order of each
  // recorded stream and the waits for events. It starts after earlier work of the first stream and
  // ends before later work of that stream; the other streams are not involved.
  virtual void replay() = 0;
};

// Device or host memory, zeroed, aligned to kAlignment bytes.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::byte* data() = 0;
  virtual int64_t bytes() const = 0;
  // Returns the descriptor of a file that is mapped at data() from the file's start, and that other
  // processes of the host can map, too; -1 for other memory.
  virtual int file() const { return -1; }
};

inline constexpr int64_t kAlignment = 256;  // bytes; a GPU's alignment, and four cache lines

// Returns the kind of device that make_device() makes: "cpu" or "cuda". Each binary links one kind.
std::string device_kind();

struct DeviceOptions {
  std::string kind = device_kind();
  int64_t memory = 0;  // bytes that a rank may use; 0: all that the machine has
  // Index among the ranks of this host. Ranks that see several devices take them in turn.
  int local_rank = 0;
  int sharing = 1;  // ranks that share this device and divide its memory
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  // Returns a text for people: "NVIDIA H200 0000:1b:00.0"; equal for ranks that share a device.
  virtual std::string description() const = 0;
  // Returns the bytes that this rank may use.
  virtual int64_t memory() const = 0;
  // Sets memory() to this rank's share of the memory that is free now, less a reserve for later
  // allocations of libraries. Changes nothing where the options set the memory, and on CPU ranks.
  virtual void take_free_memory() = 0;
  // Returns the bytes of the last-level cache; 0 where the system does not tell.
  virtual int64_t cache() const = 0;
  // Throws Error(out_of_memory) with the requested and the available bytes.
  virtual std::unique_ptr<Buffer> allocate(int64_t bytes) = 0;
  // Does the same with memory that maps a file (Buffer::file()), where the device supports that.
  virtual std::unique_ptr<Buffer> allocate_shared(int64_t bytes) { return allocate(bytes); }
  // Allocates host memory that a stream copies to and from the device without blocking the host.
  // Copies of other host memory may block it.
  virtual std::unique_ptr<Buffer> allocate_host(int64_t bytes) = 0;
  // Returns the bytes of all live buffers of the device.
  virtual int64_t allocated() const = 0;
  // `threads`: size of the OpenMP team for work on this stream.
  virtual std::unique_ptr<Stream> create_stream(const std::string& name, int threads) = 0;
  virtual std::unique_ptr<Event> create_event() = 0;
  // Returns true once work of a stream has failed, after which all work is dropped. Any thread may
  // call it. For work that waits for more than events.
  virtual bool failed() const { return false; }
  // Records the work that `issue` enqueues on the streams, instead of running it. Returns null,
  // without calling `issue`, where the back end cannot record. `issue` runs on this thread. It
  // enqueues work on these streams only, waits only for events that it recorded itself, does not
  // synchronize, and allocates no memory: it ran once before. Throws what `issue` throws. The
  // recording must be destroyed before the streams and events.
  // `timed`: every replay renews the times of events. Otherwise events only order the streams, and
  // neither their times nor reached() are renewed.
  virtual std::unique_ptr<Recording> record(std::span<Stream* const> streams, bool timed,
                                            const std::function<void()>& issue) = 0;
};

// Throws Error(unavailable) for a kind other than device_kind(), and if there is no device.
std::unique_ptr<Device> make_device(const DeviceOptions& options);

// Returns the location in the host of the device that make_device() takes. It is equal for ranks
// that share a device, even if each process numbers the devices differently. Returns "" where there
// is no device, and for CPU ranks, which divide no device.
std::string device_place(const DeviceOptions& options);

// Returns the versions of the libraries under the back end.
std::vector<LibraryVersion> device_libraries();

// Returns the seconds on the process's monotonic clock, which all timings use.
double monotonic_seconds();

}  // namespace hidup
