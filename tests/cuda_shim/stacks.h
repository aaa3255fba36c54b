// Stacks of fibers, kept for the next kernels.
#pragma once

#include <boost/context/protected_fixedsize_stack.hpp>
#include <boost/context/stack_context.hpp>

namespace cuda_shim {

// A stack allocator as Boost.Context wants it. Below a stack lies a page that no one may touch.
class StackAllocator {
 public:
  boost::context::stack_context allocate();
  void deallocate(boost::context::stack_context& stack);
};

}  // namespace cuda_shim
