// The way in which this process waits for messages.
#pragma once

namespace hidup {

// Makes its thread sleep instead of yielding while it lives. All callers of MPI have one, because
// MPI yields while it waits. Others yield as usual: threads of NCCL, say, forward messages between
// two yields.
class PatientWait {
 public:
  PatientWait();
  ~PatientWait();
  PatientWait(const PatientWait&) = delete;
  PatientWait& operator=(const PatientWait&) = delete;
};

// Inside a PatientWait: a wait that usually takes as long as another stage computes. The thread
// sleeps the longer, the longer it has waited.
class LongWait {
 public:
  LongWait();
  ~LongWait();
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;
};

// Starts a new wait of this thread, which is patient again however little time has passed.
void begin_wait();

// Sets whether communicating threads share cores with threads that compute.
void wait_beside_computation(bool shared);

// Returns the seconds that a wait sleeps at a time, by which a message may be late.
double nap_s();

}  // namespace hidup
