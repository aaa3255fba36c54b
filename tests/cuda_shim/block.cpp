#include "block.h"

#include <fmt/core.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "block_thread.h"
#include "cuda_pipeline.h"
#include "cuda_shim/device_code.h"
#include "order.h"
#include "stacks.h"
#include "watch.h"

namespace cuda_shim {
namespace {

using boost::context::fiber;

struct alignas(16) Aligned16 {
  std::byte bytes[16];
};

std::atomic<MakeWatch> make_watch = nullptr;

class Block {
 public:
  Block(const KernelLaunch& launch, uint64_t number);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void run();

  // The block's threads call these.
  int barrier(bool predicate);
  uint64_t exchange(WarpOperation operation, unsigned mask, int source, uint64_t value);
  int lane() const { return running_->number % warpSize; }
  void begin_copy(const void* by, void* to, const void* from, size_t size, size_t zeros);
  void wait_for_copies(const void* by, size_t latest);
  AsyncCopies& copies() { return running_->copies; }
  void* dynamic_memory() { return dynamic_.data(); }
  std::string name_of_thread(int number) const {
    return name_of(threads_[static_cast<size_t>(number)]);
  }
  [[noreturn]] void stop(std::string fault);
  Watch* watch() { return watch_.get(); }

 private:
  bool run_warp(size_t warp);
  void resume(Thread& thread);
  void pause();
  void open_barrier();
  Thread* lane_of_warp(int lane);
  bool complete(unsigned mask, WarpOperation operation);
  void give_results(unsigned mask, WarpOperation operation);
  [[noreturn]] void report_stuck();
  void fail(std::string fault);

  std::vector<Thread> threads_;
  std::vector<size_t> warps_;  // in the order of their turns
  std::vector<size_t> lanes_;
  std::vector<Aligned16> dynamic_;  // shared memory
  std::unique_ptr<Watch> watch_;    // may be null
  Thread* running_ = nullptr;
  size_t waiting_ = 0;  // at the barrier
  size_t done_ = 0;
  int count_ = 0;  // of the predicates at the last barrier
  std::string fault_;
  bool closing_ = false;
};

thread_local Block* current = nullptr;

Block::Block(const KernelLaunch& launch, uint64_t number_of_launch)
    : threads_(launch.block.x * launch.block.y * launch.block.z),
      warps_(in_order((threads_.size() + 31) / 32, number_of_launch)),
      lanes_(in_order(32, number_of_launch)),
      dynamic_((launch.dynamic_bytes + 15) / 16) {
  const dim3 size = launch.block;
  const std::function<void()>& kernel = launch.run;
  if (const MakeWatch make = make_watch; make != nullptr) {
    watch_ = make(launch, dynamic_.empty() ? nullptr : dynamic_[0].bytes);
  }
  for (size_t i = 0; i < threads_.size(); ++i) {
    Thread& thread = threads_[i];
    const auto number = static_cast<unsigned>(i);
    thread.number = static_cast<int>(i);
    thread.index = {number % size.x, number / size.x % size.y, number / size.x / size.y};
    thread.self = fiber(std::allocator_arg, StackAllocator(), [this, &thread, &kernel](fiber&& to) {
      thread.caller = std::move(to);
      while (!closing_) {  // once per block
        kernel();
        if (!thread.copies.empty()) {
          fail(name_of(thread) + " did not wait for all of its copies");
        }
        thread.state = State::done;
        ++done_;
        pause();
      }
      return std::move(thread.caller);
    });
  }
}

// Waiting threads of a block with a fault are unwound by their fibers' destructors.
Block::~Block() {
  current = this;
  watching = nullptr;
  closing_ = true;
  for (Thread& thread : threads_) {
    if (thread.state == State::done) {
      resume(thread);
    }
    if (thread.stopped) {  // the destructor of a fiber unwinds its stack
      static_cast<void>(new fiber(std::move(thread.self)));
    }
  }
  threads_.clear();
  current = nullptr;
}

// Runs a warp until all its threads wait for others. Warps that are far ahead of the rest reveal
// missing barriers.
void Block::run() {
  current = this;
  watching = watch_.get();
  done_ = 0;
  waiting_ = 0;
  for (Thread& thread : threads_) {
    thread.state = State::ready;
  }
  std::memset(dynamic_.data(), 0xFF, dynamic_.size() * sizeof(Aligned16));
  while (done_ < threads_.size()) {
    bool progress = false;
    for (const size_t warp : warps_) {
      while (run_warp(warp)) {
        progress = true;
      }
    }
    if (!progress) {
      report_stuck();
    }
  }
  if (watch_ != nullptr) {
    watch_->meet_all();
  }
  watching = nullptr;
  current = nullptr;
}

bool Block::run_warp(size_t warp) {
  bool progress = false;
  for (const size_t lane : lanes_) {
    const size_t number = warp * lanes_.size() + lane;
    if (number < threads_.size() && threads_[number].state == State::ready) {
      resume(threads_[number]);
      progress = true;
    }
  }
  return progress;
}

void Block::resume(Thread& thread) {
  running_ = &thread;
  if (watch_ != nullptr) {
    watch_->thread = thread.number;
  }
  threadIdx = thread.index;
  thread.self = std::move(thread.self).resume();
  if (!fault_.empty()) {
    throw Fault(std::exchange(fault_, {}));
  }
}

void Block::pause() {
  Thread& thread = *running_;
  thread.caller = std::move(thread.caller).resume();
}

int Block::barrier(bool predicate) {
  Thread& thread = *running_;
  thread.predicate = predicate;
  thread.state = State::at_barrier;
  if (++waiting_ == threads_.size()) {
    open_barrier();
  } else {
    pause();
  }
  return count_;
}

// The next barrier cannot open before all threads have left this one and read the count.
void Block::open_barrier() {
  if (watch_ != nullptr) {
    watch_->meet_all();
  }
  waiting_ = 0;
  count_ = 0;
  for (Thread& thread : threads_) {
    thread.state = State::ready;
    count_ += thread.predicate ? 1 : 0;
  }
}

Thread* Block::lane_of_warp(int lane) {
  const auto number = static_cast<size_t>(running_->number / warpSize * warpSize + lane);
  return number < threads_.size() ? &threads_[number] : nullptr;
}

bool Block::complete(unsigned mask, WarpOperation operation) {
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const Thread* thread = lane_of_warp(std::countr_zero(rest));
    if (thread->state != State::in_warp || thread->mask != mask || thread->operation != operation) {
      return false;
    }
  }
  return true;
}

void Block::give_results(unsigned mask, WarpOperation operation) {
  uint64_t values[32] = {};
  uint64_t votes = 0;
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const int at = std::countr_zero(rest);
    values[at] = lane_of_warp(at)->value;
    votes |= values[at] != 0 ? uint64_t{1} << at : 0;
  }
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    Thread& thread = *lane_of_warp(std::countr_zero(rest));
    thread.value = operation == WarpOperation::shuffle ? values[thread.source] : votes;
    thread.state = State::ready;
  }
}

uint64_t Block::exchange(WarpOperation operation, unsigned mask, int source, uint64_t value) {
  Thread& thread = *running_;
  thread.operation = operation;
  thread.mask = mask;
  thread.source = source;
  thread.value = value;
  if ((mask >> lane() & 1U) == 0) {
    fail(fmt::format("{} has a mask, {:#010x}, without itself", describe(thread), mask));
  }
  if (operation == WarpOperation::shuffle && (mask >> source & 1U) == 0) {
    fail(fmt::format("{} reads lane {}, which its mask, {:#010x}, does not name", describe(thread),
                     source, mask));
  }
  if (lane_of_warp(31 - std::countl_zero(mask)) == nullptr) {
    fail(fmt::format("{} has a mask, {:#010x}, with lanes that the block does not have",
                     describe(thread), mask));
  }
  thread.state = State::in_warp;
  if (complete(mask, operation)) {
    if (watch_ != nullptr) {
      watch_->meet(thread.number / warpSize, mask, operation == WarpOperation::sync);
    }
    give_results(mask, operation);
  } else {
    pause();
  }
  return thread.value;
}

// `from` is not read where all bytes are zeros.
void Block::begin_copy(const void* by, void* to, const void* from, size_t size, size_t zeros) {
  const bool aligned = reinterpret_cast<uintptr_t>(to) % size == 0 &&
                       (zeros == size || reinterpret_cast<uintptr_t>(from) % size == 0);
  if ((size != 4 && size != 8 && size != 16) || zeros > size || !aligned) {
    fail(fmt::format("{} copies {} bytes{}, {} of them zeros", name_of(*running_), size,
                     aligned ? "" : " that are not aligned", zeros));
  }
  if (watch_ != nullptr) {
    if (zeros < size) {
      watch_->access(by, from, static_cast<int>(size), Access::read, 0);
    }
    watch_->access(by, to, static_cast<int>(size), Access::write, 0);
  }
  running_->copies.begin(to, from, size, zeros);
}

void Block::wait_for_copies(const void* by, size_t latest) {
  if (watch_ != nullptr) {
    running_->copies.for_each_due(
        latest, [&](const void* to, size_t size) { watch_->land(by, to, static_cast<int>(size)); });
  }
  running_->copies.wait(latest);
}

// Ends this thread; the scheduler then ends the whole kernel.
void Block::fail(std::string fault) {
  fault_ = std::move(fault);
  pause();  // does not return: the fiber is unwound
}

void Block::stop(std::string fault) {
  running_->stopped = true;
  fail(std::move(fault));
  std::abort();  // not reached
}

// Names a thread that waits and one that it waits for.
void Block::report_stuck() {
  for (const Thread& thread : threads_) {
    if (thread.state == State::done) {
      continue;
    }
    running_ = &threads_[static_cast<size_t>(thread.number)];
    for (const Thread& other : threads_) {
      const bool same_warp = other.number / warpSize == thread.number / warpSize;
      const bool awaited = thread.state == State::at_barrier ||
                           (same_warp && (thread.mask >> (other.number % warpSize) & 1U) != 0);
      const bool meets = other.state == thread.state &&
                         (thread.state == State::at_barrier ||
                          (other.mask == thread.mask && other.operation == thread.operation));
      if (awaited && !meets) {
        throw Fault(describe(thread) + ", but " + describe(other));
      }
    }
  }
  throw Fault("threads wait for each other");
}

// Returns an address within the call, because the next line may begin after it.
const void* caller(const void* return_address) {
  return static_cast<const std::byte*>(return_address) - 1;
}

}  // namespace

int block_barrier(bool predicate) {
  return current->barrier(predicate);
}

uint64_t warp_exchange(WarpOperation operation, unsigned mask, int source, uint64_t value) {
  return current->exchange(operation, mask, source, value);
}

int lane() {
  return current->lane();
}

void begin_copy(void* to, const void* from, size_t size, size_t zeros) {
  current->begin_copy(caller(__builtin_return_address(0)), to, from, size, zeros);
}

void commit_copies() {
  current->copies().commit();
}

void wait_for_copies(size_t latest) {
  current->wait_for_copies(caller(__builtin_return_address(0)), latest);
}

void* dynamic_shared_memory() {
  return current->dynamic_memory();
}

std::string name_of_thread(int number) {
  return current->name_of_thread(number);
}

void stop_kernel(std::string fault) {
  current->stop(std::move(fault));
}

void watch_kernels(MakeWatch make) {
  make_watch = make;
}

void run_kernel(const KernelLaunch& launch, uint64_t number) {
  const dim3 grid = launch.grid;
  blockDim = launch.block;
  gridDim = grid;
  const uint64_t count = uint64_t{grid.x} * grid.y * grid.z;
  const Order order(count, number);
  Block block(launch, number);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = order.at(i);
    blockIdx = {static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                static_cast<unsigned>(at / grid.x / grid.y)};
    block.run();
  }
  if (block.watch() != nullptr) {
    block.watch()->end();
  }
}

}  // namespace cuda_shim
