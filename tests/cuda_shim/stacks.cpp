#include "stacks.h"

#include <mutex>
#include <vector>

namespace cuda_shim {
namespace {

constexpr size_t kBytes = 64 * 1024;

struct Unused {
  std::mutex mutex;
  std::vector<boost::context::stack_context> stacks;
};

// The stacks are never destroyed, because threads may outlive main().
Unused& unused() {
  static auto* stacks = new Unused;
  return *stacks;
}

}  // namespace

boost::context::stack_context StackAllocator::allocate() {
  {
    const std::lock_guard lock(unused().mutex);
    if (!unused().stacks.empty()) {
      const boost::context::stack_context stack = unused().stacks.back();
      unused().stacks.pop_back();
      return stack;
    }
  }
  return boost::context::protected_fixedsize_stack(kBytes).allocate();
}

void StackAllocator::deallocate(boost::context::stack_context& stack) {
  const std::lock_guard lock(unused().mutex);
  unused().stacks.push_back(stack);
}

}  // namespace cuda_shim
