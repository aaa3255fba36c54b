// Functions of ThreadSanitizer's library that the compiler calls with -fsanitize=thread: before
// every access to memory, and instead of every atomic operation.
//
// They report accesses to the watch of the kernel on this OS thread. A structure, which may have
// any size and alignment, is accessed in parts of 4 bytes (or of fewer, where it is not aligned to
// 4), as a GPU's compiler would divide it.
#include <cstddef>
#include <cstdint>

#include "watch.h"

namespace {

using cuda_shim::Access;
using cuda_shim::watching;

void report(const void* instruction, const volatile void* address, int bytes, Access kind) {
  if (watching != nullptr) {
    watching->access(instruction, const_cast<const void*>(address), bytes, kind, 0);
  }
}

void report_range(const void* instruction, const void* address, size_t bytes, Access kind) {
  if (watching == nullptr) {
    return;
  }
  const auto* data = static_cast<const std::byte*>(address);
  int part = 0;
  for (size_t at = 0; at < bytes;) {
    size_t size = 4;
    while (reinterpret_cast<uintptr_t>(data + at) % size != 0 || size > bytes - at) {
      size /= 2;
    }
    watching->access(instruction, data + at, static_cast<int>(size), kind, part++);
    at += size;
  }
}

}  // namespace

// An address within the call, because the next line may begin after it.
#define CALLER (static_cast<const std::byte*>(__builtin_return_address(0)) - 1)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define HOOKS(bytes)                               \
  void __tsan_read##bytes(const void* address) {   \
    report(CALLER, address, bytes, Access::read);  \
  }                                                \
  void __tsan_write##bytes(const void* address) {  \
    report(CALLER, address, bytes, Access::write); \
  }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
#undef HOOKS

void __tsan_read_range(const void* address, size_t bytes) {
  report_range(CALLER, address, bytes, Access::read);
}
void __tsan_write_range(const void* address, size_t bytes) {
  report_range(CALLER, address, bytes, Access::write);
}

// Only host objects have virtual functions.
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// All memory orders are treated as the strongest. Where the stand-in builds an operation from a
// load and repeated weak exchanges, the load is the access.
#define EXCHANGING(bits, type, name, operation)                                \
  type __tsan_atomic##bits##_##name(volatile type* address, type value, int) { \
    report(CALLER, address, sizeof(type), Access::atomic);                     \
    return operation(address, value, __ATOMIC_SEQ_CST);                        \
  }
#define COMPARING(bits, type, name, told)                                                   \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile type* address, type* expected, \
                                                    type value, int, int) {                 \
    if (told) {                                                                             \
      report(CALLER, address, sizeof(type), Access::atomic);                                \
    }                                                                                       \
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST,   \
                                       __ATOMIC_SEQ_CST)                                    \
               ? 1                                                                          \
               : 0;                                                                         \
  }

#define ATOMICS(bits, type)                                                   \
  type __tsan_atomic##bits##_load(const volatile type* address, int) {        \
    report(CALLER, address, sizeof(type), Access::atomic);                    \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                        \
  }                                                                           \
  void __tsan_atomic##bits##_store(volatile type* address, type value, int) { \
    report(CALLER, address, sizeof(type), Access::atomic);                    \
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                       \
  }                                                                           \
  EXCHANGING(bits, type, exchange, __atomic_exchange_n)                       \
  EXCHANGING(bits, type, fetch_add, __atomic_fetch_add)                       \
  EXCHANGING(bits, type, fetch_sub, __atomic_fetch_sub)                       \
  EXCHANGING(bits, type, fetch_and, __atomic_fetch_and)                       \
  EXCHANGING(bits, type, fetch_or, __atomic_fetch_or)                         \
  EXCHANGING(bits, type, fetch_xor, __atomic_fetch_xor)                       \
  COMPARING(bits, type, strong, true)                                         \
  COMPARING(bits, type, weak, false)
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
#undef ATOMICS
#undef COMPARING
#undef EXCHANGING

void __tsan_atomic_thread_fence(int) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"
