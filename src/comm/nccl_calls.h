// Which collectives of a group are on their way: for the watchdog. For the sources of this folder
// only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "comm/watchdog.h"

namespace hidup {

// Between two events each, so that the host need not be told by the device.
class NcclCalls {
 public:
  // `group`: what people call it. On the current device.
  explicit NcclCalls(std::string group);
  ~NcclCalls();
  NcclCalls(const NcclCalls&) = delete;
  NcclCalls& operator=(const NcclCalls&) = delete;

  // Before and after a collective is given to the stream. `kind`: "all_reduce".
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream, const char* kind, const std::string& name);

  // While NCCL makes progress on the host, for itself, as for a first message or the start.
  // `doing` may be empty: nothing of that kind any more.
  void on_host(const std::string& doing);

  // "all_reduce of x along gpu"
  std::string describe(const char* kind, const std::string& name) const;

  // From any thread.
  CollectivePlace place();

 private:
  struct Call {
    int64_t number;
    const char* kind;
    std::string name;
    cudaEvent_t start;
    cudaEvent_t end;
    double came = 0.0;  // when the watchdog first saw the start reached; 0: not yet
  };

  cudaEvent_t take_event();
  // Forgets calls from the front that have ended, at most so many.
  void drop_ended(size_t most);

  std::string group_;
  int device_ = 0;
  std::mutex mutex_;
  std::deque<Call> calls_;           // given, not seen to end
  std::vector<cudaEvent_t> events_;  // not in use
  cudaEvent_t start_ = nullptr;      // of the call that is being given
  int64_t number_ = 0;
  CollectivePlace last_;  // that ended; seconds: when
  std::string host_doing_;
  double host_since_ = 0.0;
};

}  // namespace hidup
