// How Open MPI waits in this process.
//
// Told to yield when idle, it polls in a loop of sched_yield(). That is right for
// the first moments. Later it only takes the core from the computation that it
// shares it with, and a rank that waits for a lost one can starve the whole host
// (seen with Linux 6.18: no other process ran for minutes, the heartbeat neither).
// So this process defines sched_yield() itself: yield at first, then nap.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "device/device.h"

namespace hidup {
namespace {

constexpr double kPatience = 200e-6;  // seconds of yielding before the first nap
constexpr double kPause = 50e-6;      // calls further apart than this are separate waits
constexpr timespec kNap = {.tv_sec = 0, .tv_nsec = 20000};

int patient_yield() {
  thread_local double began = 0.0;
  thread_local double left = 0.0;
  const double now = monotonic_seconds();
  if (now - left > kPause) {
    began = now;
  }
  int status = 0;
  if (now - began < kPatience) {
    status = static_cast<int>(syscall(SYS_sched_yield));
  } else {
    const int saved = errno;
    nanosleep(&kNap, nullptr);
    errno = saved;
  }
  left = monotonic_seconds();
  return status;
}

}  // namespace
}  // namespace hidup

extern "C" int sched_yield() noexcept {
  return hidup::patient_yield();
}
