#include "comm/nccl_communicator.h"

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/counts.h"
#include "comm/nccl_calls.h"
#include "comm/nccl_group.h"
#include "core/check.h"
#include "core/unequal_parts.h"
#include "device/cuda_stream.h"

namespace hidup {
namespace {

// A call takes microseconds and a start takes seconds, for which no core should spin.
constexpr double kNcclPatience = 1e-3;  // seconds of yielding
constexpr std::chrono::microseconds kNcclNap(50);

constexpr std::chrono::milliseconds kAbortPatience(500);  // for the current call

ncclDataType_t nccl_type(DType type) {
  switch (type) {
    case DType::f32:
      return ncclFloat32;
    case DType::i32:
      return ncclInt32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
  }
  fail(ExitCode::internal, "NCCL has no type {}", name_of(type));
}

// Returns the text of NCCL's version number: "2.19.3" for 21903.
std::string version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code % 10000 / 100, code % 100);
}

class NcclCommunicator final : public Communicator, private WatchedGroup {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> host, const std::string& name, int world_rank,
                   const NcclOptions& options, Watchdog& watchdog)
      : host_(std::move(host)),
        name_(name),
        world_rank_(world_rank),
        options_(options),
        members_(all_gather_value(*host_, world_rank)),
        calls_(name),
        watchdog_(watchdog) {
    if (!does_without()) {
      Watchdog::add(*this);
      try {
        start();
      } catch (...) {
        Watchdog::remove(*this);
        throw;
      }
    }
  }

  ~NcclCommunicator() override {
    if (does_without()) {
      return;
    }
    finished(alone([&] { return ncclCommFinalize(comm_); }), "the end of NCCL along " + name_);
    Watchdog::remove(*this);
    ncclCommDestroy(comm_);
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  bool through_host() const override { return false; }

  void all_reduce(Stream& stream, void* data, int64_t count, DType dtype, CollectiveAlgorithm,
                  const std::string& name) override {
    if (does_without() || count == 0) {
      return;
    }
    issue(stream, "all_reduce", name, [&](cudaStream_t on) {
      return ncclAllReduce(data, data, static_cast<size_t>(count), nccl_type(dtype), ncclSum, comm_,
                           on);
    });
  }

  void all_gather(Stream& stream, const void* send, void* receive,
                  const std::vector<int64_t>& counts, DType dtype, CollectiveAlgorithm,
                  const std::string& name) override {
    if (!is_sent(stream, send, receive, counts, dtype, "all_gather of " + name)) {
      return;
    }
    if (pads(counts, kPaddedGather)) {
      padded_all_gather(stream, send, receive, counts, dtype, name);
      return;
    }
    const ncclDataType_t type = nccl_type(dtype);
    issue(stream, "all_gather", name, [&](cudaStream_t on) {
      if (equal(counts)) {
        return ncclAllGather(send, receive, static_cast<size_t>(counts[0]), type, comm_, on);
      }
      // Broadcasts each part along a ring that passes each link once, like that of an all-gather.
      // Direct sends would cross the link between two nodes once per rank of a node.
      return for_parts(counts, [&](int root, int64_t start, size_t count) {
        return ncclBroadcast(send, at(receive, start, dtype), count, type, root, comm_, on);
      });
    });
  }

  void reduce_scatter(Stream& stream, const void* send, void* receive,
                      const std::vector<int64_t>& counts, DType dtype, CollectiveAlgorithm,
                      const std::string& name) override {
    if (!is_sent(stream, send, receive, counts, dtype, "reduce_scatter of " + name)) {
      return;
    }
    if (pads(counts, kPaddedScatter)) {
      padded_reduce_scatter(stream, send, receive, counts, dtype, name);
      return;
    }
    const ncclDataType_t type = nccl_type(dtype);
    issue(stream, "reduce_scatter", name, [&](cudaStream_t on) {
      if (equal(counts)) {
        return ncclReduceScatter(send, receive, static_cast<size_t>(counts[0]), type, ncclSum,
                                 comm_, on);
      }
      // Rings add on the way, and need no memory for the parts.
      return for_parts(counts, [&](int root, int64_t start, size_t count) {
        return ncclReduce(at(send, start, dtype), receive, count, type, ncclSum, root, comm_, on);
      });
    });
  }

  void all_to_all(Stream& stream, const void* send, const std::vector<int64_t>& send_counts,
                  void* receive, const std::vector<int64_t>& receive_counts, DType dtype,
                  CollectiveAlgorithm, const std::string& name) override {
    check_counts(send_counts, size(), "all_to_all of " + name);
    check_counts(receive_counts, size(), "all_to_all of " + name);
    const auto self = static_cast<size_t>(rank());
    check(send_counts[self] == receive_counts[self], "all_to_all of {}: a rank's own counts differ",
          name);
    if (does_without()) {
      copy_elements(stream, receive, send, send_counts[0], dtype);
      return;
    }
    const std::vector<int64_t> from = starts_of(send_counts);
    const std::vector<int64_t> to = starts_of(receive_counts);
    const ncclDataType_t type = nccl_type(dtype);
    issue(stream, "all_to_all", name, [&](cudaStream_t on) {
      NcclGroup group;  // includes the rank's own part, which then needs no launch
      for (int peer = 0; peer < size(); ++peer) {
        const auto p = static_cast<size_t>(peer);
        if (send_counts[p] > 0) {
          group.add(ncclSend(at(send, from[p], dtype), static_cast<size_t>(send_counts[p]), type,
                             peer, comm_, on));
        }
        if (receive_counts[p] > 0) {
          group.add(ncclRecv(at(receive, to[p], dtype), static_cast<size_t>(receive_counts[p]),
                             type, peer, comm_, on));
        }
      }
      return group.result();
    });
  }

  void broadcast(Stream& stream, void* data, int64_t count, int root, DType dtype,
                 const std::string& name) override {
    if (does_without() || count == 0) {
      return;
    }
    issue(stream, "broadcast", name, [&](cudaStream_t on) {
      return ncclBroadcast(data, data, static_cast<size_t>(count), nccl_type(dtype), root, comm_,
                           on);
    });
  }

  void move(Stream& stream, const void* send, void* receive, int64_t count,
            const std::vector<int>& sources, DType dtype, const std::string& name) override {
    const MovePart part = move_part(sources, rank(), size(), "move of " + name);
    if (does_without() || count == 0) {
      return;
    }
    const ncclDataType_t type = nccl_type(dtype);
    const auto elements = static_cast<size_t>(count);
    issue(stream, "move", name, [&](cudaStream_t on) {
      NcclGroup group;
      for (const int to : part.sends_to) {
        group.add(ncclSend(send, elements, type, to, comm_, on));
      }
      if (part.receives) {
        const int from = sources[static_cast<size_t>(rank())];
        group.add(ncclRecv(receive, elements, type, from, comm_, on));
      }
      return group.result();
    });
  }

  std::shared_ptr<void> register_memory(Buffer& memory) override {
    if (does_without() || !options_.register_buffers) {
      return nullptr;
    }
    void* handle = nullptr;
    const ncclResult_t result = alone([&] {
      return ncclCommRegister(comm_, memory.data(), static_cast<size_t>(memory.bytes()), &handle);
    });
    if (result != ncclSuccess) {
      fail(ExitCode::communication, "cluster.comm.register_buffers: {}", reason_of(result));
    }
    // NCCL returns no handle where this GPU's links have no use for registered memory.
    return {handle, [this](void* registered) {
              if (registered != nullptr) {
                alone([&] { return ncclCommDeregister(comm_, registered); });
              }
            }};
  }

  void barrier() override { host_->barrier(); }
  std::string broadcast(const std::string& text) override { return host_->broadcast(text); }
  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    return host_->all_gather(mine);
  }
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) override {
    return host_->gather(mine);
  }
  void exchange(std::span<const std::byte> send, const std::vector<int64_t>& send_counts,
                std::span<std::byte> receive, const std::vector<int64_t>& receive_counts) override {
    host_->exchange(send, send_counts, receive, receive_counts);
  }
  std::unique_ptr<Communicator> split(int64_t color) override {
    return make_nccl_communicator(host_->split(color), "part of " + name_, world_rank_, options_,
                                  watchdog_);
  }

 private:
  bool does_without() const { return size() == 1 && !options_.alone; }

  static const void* at(const void* data, int64_t element, DType dtype) {
    return static_cast<const std::byte*>(data) + element * size_of(dtype);
  }
  static void* at(void* data, int64_t element, DType dtype) {
    return static_cast<std::byte*>(data) + element * size_of(dtype);
  }
  // Returns true if ranks have to send parts of these sizes; a group without NCCL copies instead.
  bool is_sent(Stream& stream, const void* send, void* receive, const std::vector<int64_t>& counts,
               DType dtype, const std::string& doing) const {
    check_counts(counts, size(), doing);
    if (does_without()) {
      copy_elements(stream, receive, send, counts[0], dtype);
      return false;
    }
    return starts_of(counts).back() > 0;
  }
  // Makes call(rank, start of its part, elements) for every non-empty part, as one NCCL group.
  template <typename Call>
  static ncclResult_t for_parts(const std::vector<int64_t>& counts, const Call& call) {
    const std::vector<int64_t> starts = starts_of(counts);
    NcclGroup group;
    for (size_t r = 0; r < counts.size(); ++r) {
      if (counts[r] > 0) {
        group.add(call(static_cast<int>(r), starts[r], static_cast<size_t>(counts[r])));
      }
    }
    return group.result();
  }
  static bool equal(const std::vector<int64_t>& counts) {
    return std::ranges::count(counts, counts[0]) == static_cast<std::ptrdiff_t>(counts.size());
  }

  // Returns true for unequal parts that are faster when all are as large as the largest.
  static bool pads(const std::vector<int64_t>& counts, double padded_over_grouped) {
    const auto padded =
        static_cast<double>(std::ranges::max(counts)) * static_cast<double>(counts.size());
    return !equal(counts) &&
           padding_is_faster(padded_over_grouped,
                             padded / static_cast<double>(starts_of(counts).back()));
  }

  // Parts of that many elements each, in the stream's scratch memory.
  struct Padded {
    Padded(Stream& stream, const std::vector<int64_t>& counts, DType dtype)
        : largest(std::ranges::max(counts)),
          type(dtype),
          memory(cuda_stream(stream).scratch(largest * std::ssize(counts) * size_of(dtype))) {}
    void* part(size_t rank) const { return at(memory, static_cast<int64_t>(rank) * largest, type); }

    int64_t largest;
    DType type;
    void* memory;
  };

  void padded_all_gather(Stream& stream, const void* send, void* receive,
                         const std::vector<int64_t>& counts, DType dtype, const std::string& name) {
    const Padded padded(stream, counts, dtype);
    const auto self = static_cast<size_t>(rank());
    copy_elements(stream, padded.part(self), send, counts[self], dtype);
    issue(stream, "all_gather", name, [&](cudaStream_t on) {
      return ncclAllGather(padded.part(self), padded.memory, static_cast<size_t>(padded.largest),
                           nccl_type(dtype), comm_, on);
    });
    const std::vector<int64_t> starts = starts_of(counts);
    for (size_t r = 0; r < counts.size(); ++r) {
      copy_elements(stream, at(receive, starts[r], dtype), padded.part(r), counts[r], dtype);
    }
  }

  // NCCL also adds up the memory between the parts, which nobody reads.
  void padded_reduce_scatter(Stream& stream, const void* send, void* receive,
                             const std::vector<int64_t>& counts, DType dtype,
                             const std::string& name) {
    const Padded padded(stream, counts, dtype);
    const std::vector<int64_t> starts = starts_of(counts);
    for (size_t r = 0; r < counts.size(); ++r) {
      copy_elements(stream, padded.part(r), at(send, starts[r], dtype), counts[r], dtype);
    }
    const auto self = static_cast<size_t>(rank());
    issue(stream, "reduce_scatter", name, [&](cudaStream_t on) {
      return ncclReduceScatter(padded.memory, padded.part(self),
                               static_cast<size_t>(padded.largest), nccl_type(dtype), ncclSum,
                               comm_, on);
    });
    copy_elements(stream, receive, padded.part(self), counts[self], dtype);
  }

  void start() {
    const std::string doing = "the start of NCCL along " + name_;
    ncclUniqueId id = {};
    std::string text;
    if (rank() == 0) {
      const ncclResult_t result = ncclGetUniqueId(&id);
      if (result == ncclSuccess) {
        text.assign(id.internal, sizeof(id.internal));
      }
    }
    text = host_->broadcast(text);
    if (text.size() != sizeof(id.internal)) {
      fail(ExitCode::communication, "{}: NCCL's unique id could not be made on rank {}: {}", doing,
           members_[0], ncclGetLastError(nullptr));
    }
    std::memcpy(id.internal, text.data(), sizeof(id.internal));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that the watchdog can abort a call that never ends
    if (options_.max_ctas > 0) {
      config.maxCTAs = options_.max_ctas;
    }
    const ncclResult_t result =
        finished(ncclCommInitRankConfig(&comm_, size(), id, rank(), &config), doing);
    if (result != ncclSuccess) {
      const std::string reason = reason_of(result);
      ncclCommAbort(comm_);
      fail(ExitCode::communication, "{}: {}", doing, reason);
    }
    started_ = true;
  }

  // Enqueues a collective on the stream; `calls` returns NCCL's result.
  template <typename Calls>
  void issue(Stream& stream, const char* kind, const std::string& name, Calls&& calls) {
    const cudaStream_t on = cuda_stream(stream).handle();
    const std::string what = calls_.describe(kind, name);
    calls_.begin(on, what);
    // Until finished() returns NCCL may not have enqueued its work: a thread of its own does that.
    const ncclResult_t end = finished(alone([&] { return calls(on); }), what);
    if (end != ncclSuccess) {
      watchdog_.lose(fmt::format("{}: {}", what, reason_of(end)));
    }
    calls_.end(on);
  }

  // Waits while NCCL works on the host, as for other ranks' answers at the first message to them.
  ncclResult_t finished(ncclResult_t result, const std::string& doing) {
    if (result != ncclInProgress) {
      return result;
    }
    calls_.on_host(doing);
    const double began = monotonic_seconds();
    while (result == ncclInProgress) {
      if (monotonic_seconds() - began < kNcclPatience) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kNcclNap);
      }
      result = alone([&] { return state(); });
    }
    calls_.on_host("");
    return result;
  }

  // Makes a call on comm_: NCCL takes one at a time. The lock is free while NCCL works on a call
  // that returned, so that the watchdog can look.
  template <typename Call>
  ncclResult_t alone(const Call& call) {
    const std::lock_guard lock(in_nccl_);
    if (aborted_.load()) {
      watchdog_.lose("NCCL was aborted");
    }
    return call();
  }

  // The caller holds the lock.
  ncclResult_t state() const {
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result);
    return asked == ncclSuccess ? result : asked;
  }

  // Makes no call on the communicator: NCCL has one error text per process.
  std::string reason_of(ncclResult_t result) const {
    const char* detail = ncclGetLastError(comm_);
    return detail == nullptr || *detail == '\0'
               ? fmt::format("NCCL: {}", ncclGetErrorString(result))
               : fmt::format("NCCL: {} ({})", ncclGetErrorString(result), detail);
  }

  const std::vector<int>& members() const override { return members_; }
  CollectivePlace place() override { return calls_.place(); }
  // Does not wait for a call that has not returned, and may never return. That call's result tells
  // of failures. place(), here or on the ranks that wait for this one, notices a call that does not
  // end: it reads device marks and a clock, and asks NCCL nothing.
  std::string failure() override {
    const std::unique_lock lock(in_nccl_, std::try_to_lock);
    if (!lock || !started_.load()) {  // start() looks itself
      return "";
    }
    const ncclResult_t result = state();
    return result == ncclSuccess || result == ncclInProgress ? "" : reason_of(result);
  }
  // Runs concurrently with a call that does not return, as ncclCommAbort() allows to free it, but
  // with no other call. No call follows it.
  void abort() override {
    if (started_.load()) {
      aborted_ = true;
      const std::unique_lock lock(in_nccl_, kAbortPatience);
      ncclCommAbort(comm_);
    }
  }

  std::unique_ptr<Communicator> host_;
  std::string name_;
  int world_rank_;
  NcclOptions options_;
  std::vector<int> members_;
  NcclCalls calls_;
  Watchdog& watchdog_;
  ncclComm_t comm_ = nullptr;
  std::timed_mutex in_nccl_;  // held during calls on comm_
  std::atomic<bool> started_ = false;
  std::atomic<bool> aborted_ = false;
};

}  // namespace

bool has_nccl() {
  return true;
}

std::vector<LibraryVersion> nccl_libraries() {
  int loaded = 0;
  const ncclResult_t result = ncclGetVersion(&loaded);
  return {
      {"NCCL", version_text(NCCL_VERSION_CODE), result == ncclSuccess ? version_text(loaded) : ""}};
}

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> host,
                                                     const std::string& name, int world_rank,
                                                     const NcclOptions& options,
                                                     Watchdog& watchdog) {
  return std::make_unique<NcclCommunicator>(std::move(host), name, world_rank, options, watchdog);
}

}  // namespace hidup
