// A system that refuses threads: preloaded, it allows a process FEW_THREADS threads at a time
// besides its first; if FEW_THREADS_RANK is set, on this rank only.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<int> g_threads = 0;

struct Start {
  void* (*routine)(void*);
  void* argument;
};

void* run(void* data) {
  const Start start = *static_cast<Start*>(data);
  delete static_cast<Start*>(data);
  void* result = start.routine(start.argument);
  --g_threads;
  return result;
}

bool is_limited() {
  const char* only = std::getenv("FEW_THREADS_RANK");
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank != nullptr && (only == nullptr || std::strcmp(only, rank) == 0);
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*routine)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  const char* limit = std::getenv("FEW_THREADS");
  if (++g_threads > (limit != nullptr && is_limited() ? std::atoi(limit) : 1 << 20)) {
    --g_threads;
    return EAGAIN;
  }
  const int status = create(thread, attributes, run, new Start{routine, argument});
  if (status != 0) {
    --g_threads;
  }
  return status;
}
