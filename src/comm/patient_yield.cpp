// The wait of Open MPI in this process.
//
// Open MPI that is told to yield when idle polls in a loop of sched_yield(). That is right for the
// first moments. Later it only takes the core from the computation on the same core, and a rank
// that waits for a lost one can starve the whole host (seen with Linux 6.18: no other process ran
// for minutes, not even the heartbeat). So this process defines sched_yield() itself: in a
// PatientWait it yields at first, then sleeps. A thread that shares its core with computation
// sleeps at once: each yield gives the core away for a whole time slice, milliseconds in which
// nobody feeds the link, whereas a sleeper is woken soon.
//
// A PatientWait surrounds calls, not threads: the thread that waits in MPI may be CUDA's own, which
// runs the host tasks of a stream. MPI's threads need none: they sleep until a message arrives.
#include "comm/patient_yield.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <ctime>

#include "device/device.h"

namespace hidup {
namespace {

constexpr double kPatience = 200e-6;  // seconds of yielding before the first nap
constexpr double kPause = 50e-6;      // calls further apart are separate waits
constexpr timespec kNap = {.tv_sec = 0, .tv_nsec = 20000};
constexpr timespec kSharedNap = {.tv_sec = 0, .tv_nsec = 100000};

std::atomic<bool> cores_are_shared = false;
thread_local int waits = 0;       // number of PatientWaits of this thread
thread_local int long_waits = 0;  // those of them that are long
thread_local double left = 0;     // seconds; end of the thread's last call

void nap(const timespec& length) {
  // The kernel would lengthen every sleep by 50 us.
  thread_local const int exact = prctl(PR_SET_TIMERSLACK, 1);
  static_cast<void>(exact);
  const int saved = errno;
  nanosleep(&length, nullptr);
  errno = saved;
}

int plain_yield() {
  return static_cast<int>(syscall(SYS_sched_yield));
}

// Returns a part of the time waited so far, so that polls take little of a core and a long wait
// ends late by that part at most.
timespec long_nap(double waited) {
  const double part = std::clamp(waited / 8, 1e-9 * static_cast<double>(kSharedNap.tv_nsec), 1e-3);
  return {.tv_sec = 0, .tv_nsec = std::lround(1e9 * part)};
}

int patient_yield() {
  const bool shared = cores_are_shared.load(std::memory_order_relaxed);
  if (shared && long_waits == 0) {
    nap(kSharedNap);
    return 0;
  }
  thread_local double began = 0.0;
  const double now = monotonic_seconds();
  if (now - left > kPause) {
    began = now;
  }
  int status = 0;
  if (!shared && now - began < kPatience) {
    status = plain_yield();
  } else {
    nap(long_waits > 0 ? long_nap(now - began) : kNap);
  }
  left = monotonic_seconds();
  return status;
}

}  // namespace

PatientWait::PatientWait(bool is_long) : is_long_(is_long) {
  ++waits;
  long_waits += is_long_ ? 1 : 0;
}

PatientWait::~PatientWait() {
  --waits;
  long_waits -= is_long_ ? 1 : 0;
}

void begin_wait() {
  left = 0;
}

void wait_beside_computation(bool shared) {
  cores_are_shared = shared;
}

double nap_s() {
  return 1e-9 * static_cast<double>((cores_are_shared ? kSharedNap : kNap).tv_nsec);
}

}  // namespace hidup

extern "C" int sched_yield() noexcept {
  return hidup::waits > 0 ? hidup::patient_yield() : hidup::plain_yield();
}
