// How this process waits for messages.
#pragma once

namespace hidup {

// While one lives its thread naps instead of yielding. Whatever calls MPI has one: MPI yields where
// it waits. Elsewhere a yield is the plain one: threads of other libraries, NCCL's among them, pass
// messages on between two yields.
class PatientWait {
 public:
  PatientWait();
  ~PatientWait();
  PatientWait(const PatientWait&) = delete;
  PatientWait& operator=(const PatientWait&) = delete;
};

// What this thread waits for from now on is something else than before, however little time has
// passed: it is patient again.
void begin_wait();

// Whether the threads that communicate have no core of their own beside those that compute.
void wait_beside_computation(bool shared);

// Seconds that a wait sleeps at a time, and a message may therefore be late.
double nap_s();

}  // namespace hidup
