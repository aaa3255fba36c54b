#include "block.h"

#include <fmt/core.h>

#include <bit>
#include <boost/context/fiber.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "async_copies.h"
#include "cuda_pipeline.h"
#include "cuda_shim/device_code.h"
#include "stacks.h"

namespace cuda_shim {
namespace {

using boost::context::fiber;

enum class State { ready, at_barrier, in_warp, done };

// A thread of the block.
struct Thread {
  int number = 0;  // in the block
  uint3 index{};
  State state = State::ready;
  fiber self;    // where it goes on, while it does not run
  fiber caller;  // where the scheduler goes on, while it runs
  bool predicate = false;
  // What it brought to its warp; `value` becomes what it gets.
  WarpOperation operation = WarpOperation::sync;
  unsigned mask = 0;
  int source = 0;
  uint64_t value = 0;
  AsyncCopies copies;
};

// Walks over 0 .. count-1 once, from any of them, in either direction.
struct Order {
  uint64_t count;
  uint64_t first;
  bool backwards;

  Order(uint64_t of, uint64_t launch)
      : count(of), first(launch * 13 % of), backwards(launch % 2 == 1) {}
  uint64_t at(uint64_t i) const { return (first + (backwards ? count - i : i)) % count; }
};

const char* name_of(WarpOperation operation) {
  switch (operation) {
    case WarpOperation::sync:
      return "__syncwarp";
    case WarpOperation::shuffle:
      return "a shuffle";
    case WarpOperation::ballot:
      return "a vote";
  }
  return "";
}

std::string name_of(const Thread& thread) {
  return fmt::format("thread ({},{},{}) of block ({},{},{})", thread.index.x, thread.index.y,
                     thread.index.z, blockIdx.x, blockIdx.y, blockIdx.z);
}

class Block {
 public:
  Block(const std::function<void()>& kernel, dim3 size, uint64_t launch);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void run();

  // Called by the threads.
  int barrier(bool predicate);
  uint64_t exchange(WarpOperation operation, unsigned mask, int source, uint64_t value);
  int lane() const { return running_->number % warpSize; }
  void begin_copy(void* to, const void* from, size_t size, size_t zeros);
  AsyncCopies& copies() { return running_->copies; }

 private:
  bool run_warp(uint64_t warp);
  void resume(Thread& thread);
  void pause();
  void open_barrier();
  Thread* lane_of_warp(int lane);
  bool complete(unsigned mask, WarpOperation operation);
  void give_results(unsigned mask, WarpOperation operation);
  [[noreturn]] void report_stuck();
  std::string describe(const Thread& thread) const;
  void fail(std::string fault);

  std::vector<Thread> threads_;
  Order warps_;
  Order lanes_;
  Thread* running_ = nullptr;
  size_t waiting_ = 0;  // at the barrier
  size_t done_ = 0;
  int count_ = 0;  // of the predicates at the last barrier
  std::string fault_;
  bool closing_ = false;
};

thread_local Block* current = nullptr;

Block::Block(const std::function<void()>& kernel, dim3 size, uint64_t launch)
    : threads_(size.x * size.y * size.z),
      warps_((threads_.size() + 31) / 32, launch),
      lanes_(32, launch) {
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

// Threads that a fault left waiting are unwound by their fibers' destructors.
Block::~Block() {
  current = this;
  closing_ = true;
  for (Thread& thread : threads_) {
    if (thread.state == State::done) {
      resume(thread);
    }
  }
  threads_.clear();
  current = nullptr;
}

// A warp runs until all its threads wait for others: warps that are far ahead of the rest show
// where a barrier is missing.
void Block::run() {
  current = this;
  done_ = 0;
  waiting_ = 0;
  for (Thread& thread : threads_) {
    thread.state = State::ready;
  }
  while (done_ < threads_.size()) {
    bool progress = false;
    for (uint64_t i = 0; i < warps_.count; ++i) {
      while (run_warp(warps_.at(i))) {
        progress = true;
      }
    }
    if (!progress) {
      report_stuck();
    }
  }
  current = nullptr;
}

bool Block::run_warp(uint64_t warp) {
  bool progress = false;
  for (uint64_t i = 0; i < lanes_.count; ++i) {
    const uint64_t number = warp * lanes_.count + lanes_.at(i);
    if (number < threads_.size() && threads_[number].state == State::ready) {
      resume(threads_[number]);
      progress = true;
    }
  }
  return progress;
}

void Block::resume(Thread& thread) {
  running_ = &thread;
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

// The next barrier cannot open before all threads have left this one, and read the count.
void Block::open_barrier() {
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
    give_results(mask, operation);
  } else {
    pause();
  }
  return thread.value;
}

// `from` is not read where all is zeros.
void Block::begin_copy(void* to, const void* from, size_t size, size_t zeros) {
  const bool aligned = reinterpret_cast<uintptr_t>(to) % size == 0 &&
                       (zeros == size || reinterpret_cast<uintptr_t>(from) % size == 0);
  if ((size != 4 && size != 8 && size != 16) || zeros > size || !aligned) {
    fail(fmt::format("{} copies {} bytes{}, {} of them zeros", name_of(*running_), size,
                     aligned ? "" : " that are not aligned", zeros));
  }
  running_->copies.begin(to, from, size, zeros);
}

// Ends this thread, and by the scheduler the whole kernel.
void Block::fail(std::string fault) {
  fault_ = std::move(fault);
  pause();  // does not return: the fiber is unwound
}

std::string Block::describe(const Thread& thread) const {
  const std::string where = name_of(thread);
  switch (thread.state) {
    case State::ready:
      return fmt::format("{}, in {},", where, name_of(thread.operation));
    case State::at_barrier:
      return where + " waits at __syncthreads";
    case State::in_warp:
      return fmt::format("{} waits in {} with mask {:#010x}", where, name_of(thread.operation),
                         thread.mask);
    case State::done:
      return where + " has returned";
  }
  return where;
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
  current->begin_copy(to, from, size, zeros);
}

void commit_copies() {
  current->copies().commit();
}

void wait_for_copies(size_t latest) {
  current->copies().wait(latest);
}

void run_kernel(const std::function<void()>& kernel, dim3 grid, dim3 block, uint64_t launch) {
  blockDim = block;
  gridDim = grid;
  const Order order(uint64_t{grid.x} * grid.y * grid.z, launch);
  Block threads(kernel, block, launch);
  for (uint64_t i = 0; i < order.count; ++i) {
    const uint64_t number = order.at(i);
    blockIdx = {static_cast<unsigned>(number % grid.x),
                static_cast<unsigned>(number / grid.x % grid.y),
                static_cast<unsigned>(number / grid.x / grid.y)};
    threads.run();
  }
}

}  // namespace cuda_shim
