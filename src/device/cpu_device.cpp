#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "core/check.h"
#include "core/room.h"
#include "core/units.h"
#include "device/annotate.h"
#include "device/device.h"

namespace hidup {
namespace {

// Address space in bytes that libraries need besides the buffers in the first step, for threads,
// generated code and buffers of their own. Some libraries end the process where they do not get it.
constexpr int64_t kRoomBeside = int64_t{256} << 20;

class CpuEvent;

// State that a device's streams share: waits for events, and the first failure, which ends them.
class Shared {
 public:
  // Returns once the event has that recording, or after a failure.
  void wait(const CpuEvent& event, int64_t recording);
  // Notes the time of a recording. It wakes only the threads that wait for it: a stream records
  // thousands of events in a second, and others often wait on the same core.
  void reach(CpuEvent& event, int64_t recording);
  // Keeps the exception, if it is the first one, and ends all waits.
  void fail(std::exception_ptr failure);
  void rethrow_failure();
  bool failed() const { return failed_.load(); }

 private:
  struct Waiter {
    const CpuEvent& event;
    std::condition_variable woken;
  };

  std::mutex mutex_;
  std::vector<Waiter*> waiters_;  // one per thread that waits
  std::exception_ptr failure_;
  std::atomic<bool> failed_ = false;
};

class CpuEvent final : public Event {
 public:
  double seconds() const override { return seconds_; }
  bool reached() const override { return reached_ >= given_; }

 private:
  friend class CpuStream;
  friend class Shared;
  std::atomic<int64_t> given_ = 0;    // recordings requested
  std::atomic<int64_t> reached_ = 0;  // recordings done; changes under Shared's lock
  double seconds_ = 0.0;
};

void Shared::wait(const CpuEvent& event, int64_t recording) {
  std::unique_lock lock(mutex_);
  const auto done = [&] { return event.reached_ >= recording || failed(); };
  if (done()) {
    return;
  }
  Waiter waiter{.event = event};
  waiters_.push_back(&waiter);
  waiter.woken.wait(lock, done);
  std::erase(waiters_, &waiter);
}

void Shared::reach(CpuEvent& event, int64_t recording) {
  const std::lock_guard lock(mutex_);
  event.seconds_ = monotonic_seconds();
  event.reached_ = recording;
  for (Waiter* waiter : waiters_) {
    if (&waiter->event == &event) {
      waiter->woken.notify_one();
    }
  }
}

void Shared::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) {
    failure_ = std::move(failure);
  }
  failed_ = true;
  for (Waiter* waiter : waiters_) {
    waiter->woken.notify_one();
  }
}

void Shared::rethrow_failure() {
  if (failed()) {
    const std::lock_guard lock(mutex_);
    std::rethrow_exception(failure_);
  }
}

#ifdef _OPENMP
// Starts this thread's OpenMP team now, not in the first step. Only this thread uses the team.
void start_team() {
#pragma omp parallel
  { [[maybe_unused]] const int member = omp_get_thread_num(); }
}
#endif

class CpuStream final : public Stream {
 public:
  CpuStream(std::shared_ptr<Shared> shared, int threads)
      : shared_(std::move(shared)), worker_([this, threads] { work(threads); }) {}

  ~CpuStream() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    given_.notify_one();
    worker_.join();
  }

  void enqueue(std::function<void()> task) override {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    given_.notify_one();
  }

  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes == 0)
      return;  // an empty region may have a null address, which memcpy does not accept
    enqueue([=] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
  }

  void record(Event& event) override {
    auto& cpu_event = static_cast<CpuEvent&>(event);
    enqueue([this, &cpu_event, recording = ++cpu_event.given_] {
      shared_->reach(cpu_event, recording);
    });
  }

  void wait(Event& event) override {
    auto& cpu_event = static_cast<CpuEvent&>(event);
    enqueue([this, &cpu_event, recording = cpu_event.given_.load()] {
      shared_->wait(cpu_event, recording);
    });
  }

  std::byte* staging(int64_t) override { return nullptr; }

  void synchronize() override {
    std::unique_lock lock(mutex_);
    drained_.wait(lock, [this] { return tasks_.empty() && !busy_; });
    shared_->rethrow_failure();
  }

  void synchronize(Event& event) override {
    const auto& cpu_event = static_cast<CpuEvent&>(event);
    shared_->wait(cpu_event, cpu_event.given_);
    shared_->rethrow_failure();
  }

 private:
  void work([[maybe_unused]] int threads) {
#ifdef _OPENMP
    omp_set_num_threads(threads);
    start_team();
#endif
    std::unique_lock lock(mutex_);
    while (true) {
      given_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
      if (tasks_.empty()) {
        return;
      }
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      busy_ = true;
      lock.unlock();
      run(task);
      lock.lock();
      busy_ = false;
      if (tasks_.empty()) {
        drained_.notify_all();
      }
    }
  }

  void run(const std::function<void()>& task) {
    if (shared_->failed()) {
      return;
    }
    try {
      task();
    } catch (...) {
      shared_->fail(std::current_exception());
    }
  }

  std::shared_ptr<Shared> shared_;
  std::mutex mutex_;
  std::condition_variable given_;
  std::condition_variable drained_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false;
  bool closing_ = false;
  std::thread worker_;  // last, because it uses all members above
};

// Closes the open file that it holds, if any.
class OpenFile {
 public:
  explicit OpenFile(int number = -1) : number_(number) {}
  ~OpenFile() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  OpenFile(OpenFile&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OpenFile& operator=(OpenFile&&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

// mmap provides the pages, so they are zeroed, and the threads that use them touch them first.
class CpuBuffer final : public Buffer {
 public:
  CpuBuffer(std::byte* data, int64_t bytes, OpenFile file,
            std::shared_ptr<std::atomic<int64_t>> allocated)
      : data_(data), bytes_(bytes), file_(std::move(file)), allocated_(std::move(allocated)) {
    *allocated_ += bytes_;
  }
  ~CpuBuffer() override {
    munmap(data_, static_cast<size_t>(bytes_));
    *allocated_ -= bytes_;
  }
  CpuBuffer(const CpuBuffer&) = delete;
  CpuBuffer& operator=(const CpuBuffer&) = delete;
  std::byte* data() override { return data_; }
  int64_t bytes() const override { return bytes_; }
  int file() const override { return file_.number(); }

 private:
  std::byte* data_;
  int64_t bytes_;
  OpenFile file_;
  std::shared_ptr<std::atomic<int64_t>> allocated_;  // the device's; it may end first
};

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(int64_t bytes)
      : data_(new (std::align_val_t{kAlignment}) std::byte[static_cast<size_t>(bytes)]()),
        bytes_(bytes) {}
  std::byte* data() override { return data_.get(); }
  int64_t bytes() const override { return bytes_; }

 private:
  struct Delete {
    void operator()(std::byte* data) const {
      ::operator delete[](data, std::align_val_t{kAlignment});
    }
  };
  std::unique_ptr<std::byte[], Delete> data_;
  int64_t bytes_;
};

// Returns Linux's name of the processor, such as "AMD EPYC 9R14", or "cpu" if it has none.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
      return start == std::string::npos ? "cpu" : line.substr(start);
    }
  }
  return "cpu";
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceOptions& options) : memory_(options.memory) {
    const int64_t physical = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    if (memory_ == 0 || memory_ > physical) {
      memory_ = physical;
    }
  }

  std::string name() const override { return processor_name(); }
  std::string description() const override { return processor_name(); }
  int64_t memory() const override { return memory_; }
  int64_t cache() const override {
    return std::max({sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE), 0L});
  }
  // Keeps the limit: free memory changes from moment to moment, and the system can swap.
  void take_free_memory() override {}

  std::unique_ptr<Buffer> allocate(int64_t bytes) override {
    return allocate_in(OpenFile(), bytes);
  }

  // Maps a memfd; where the system provides none, allocates private memory.
  std::unique_ptr<Buffer> allocate_shared(int64_t bytes) override {
    OpenFile file(memfd_create("hidup", MFD_CLOEXEC));
    const bool made = file.number() >= 0 && bytes <= memory_ &&
                      ftruncate(file.number(), std::max<int64_t>(bytes, kAlignment)) == 0;
    return allocate_in(made ? std::move(file) : OpenFile(), bytes);
  }

  std::unique_ptr<Buffer> allocate_host(int64_t bytes) override {
    return std::make_unique<HostBuffer>(bytes);
  }

  int64_t allocated() const override { return *allocated_; }

  std::unique_ptr<Stream> create_stream(const std::string& name, int threads) override {
    // Checks the limit first, because OpenMP ends the process where the system refuses a thread.
    check_threads(threads, fmt::format("the {} stream", name));
    return std::make_unique<CpuStream>(shared_, threads);
  }

  std::unique_ptr<Event> create_event() override { return std::make_unique<CpuEvent>(); }

  bool failed() const override { return shared_->failed(); }

  // Does not record: enqueueing a task on a worker thread costs next to nothing.
  std::unique_ptr<Recording> record(std::span<Stream* const>, bool,
                                    const std::function<void()>&) override {
    return nullptr;
  }

 private:
  std::unique_ptr<Buffer> allocate_in(OpenFile file, int64_t bytes) {
    const int64_t size = std::max<int64_t>(bytes, kAlignment);
    if (size > memory_) {
      fail(ExitCode::out_of_memory, "the plan needs {}, the device has {}", format_bytes(size),
           format_bytes(memory_));
    }
    const int flags = file.number() >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void* data =
        mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, flags, file.number(), 0);
    if (data == MAP_FAILED) {
      fail(ExitCode::out_of_memory, "the plan needs {}, and the system refuses it: {}",
           format_bytes(size), std::strerror(errno));
    }
    auto buffer = std::make_unique<CpuBuffer>(static_cast<std::byte*>(data), size, std::move(file),
                                              allocated_);
    check_address_space(kRoomBeside,
                        fmt::format("what runs beside a plan of {}", format_bytes(*allocated_)));
    // Requests huge pages, which cause fewer page faults in the first step.
    madvise(data, static_cast<size_t>(size), MADV_HUGEPAGE);
    return buffer;
  }

  int64_t memory_;
  std::shared_ptr<std::atomic<int64_t>> allocated_ = std::make_shared<std::atomic<int64_t>>(0);
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace

NamedRange::NamedRange(const std::string&) {}
NamedRange::~NamedRange() = default;

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  if (options.kind != "cpu") {
    fail(ExitCode::unavailable,
         "cluster.device.kind is {}, but this program was built for CPU ranks only: in a job of "
         "several builds set it to auto",
         options.kind);
  }
  return std::make_unique<CpuDevice>(options);
}

std::string device_place(const DeviceOptions&) {
  return "";
}

std::string device_kind() {
  return "cpu";
}

std::vector<LibraryVersion> device_libraries() {
  return {};
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace hidup
