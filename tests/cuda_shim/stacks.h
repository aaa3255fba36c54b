// Stacks of fibers, which later kernels reuse.
#pragma once

#include <boost/context/protected_fixedsize_stack.hpp>
#include <boost/context/stack_context.hpp>

namespace cuda_shim {

// A stack allocator for Boost.Context. A page below each stack is protected from access.
class StackAllocator {
 public:
  boost::context::stack_context allocate();
  void deallocate(boost::context::stack_context& stack);
};

}  // namespace cuda_shim
