// The way in which this process waits for messages.
#pragma once

namespace hidup {

// Makes its thread sleep instead of yielding while it lives. All callers of MPI have one, because
// MPI yields while it waits. Others yield as usual: threads of NCCL, say, forward messages between
// two yields.
class PatientWait {
 public:
  // `is_long`: the wait usually takes as long as another stage computes. The thread then sleeps the
  // longer, the longer it has waited.
  explicit PatientWait(bool is_long = false);
  ~PatientWait();
  PatientWait(const PatientWait&) = delete;
  PatientWait& operator=(const PatientWait&) = delete;

 private:
  const bool is_long_;
};

// Starts a new wait of this thread, which is patient again however little time has passed.
void begin_wait();

// Sets whether communicating threads share cores with threads that compute.
void wait_beside_computation(bool shared);

// Returns the seconds that a wait sleeps at a time, by which a message may be late.
double nap_s();

}  // namespace hidup
