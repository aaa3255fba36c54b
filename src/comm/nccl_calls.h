// How far the collectives of a group are: for the watchdog. For the sources of this folder only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/watchdog.h"
#include "device/cuda_memory.h"

namespace hidup {

// The device itself marks, before and after each collective, where it is: small kernels in the
// order of the stream, which a graph repeats like everything else. (Events would not do: what one
// that a graph records says while the graph runs is nowhere defined.)
class NcclCalls {
 public:
  // `group`: what people call it. On the current device.
  explicit NcclCalls(std::string group);
  NcclCalls(const NcclCalls&) = delete;
  NcclCalls& operator=(const NcclCalls&) = delete;

  // Before and after a collective is given to the stream; `what`: as describe() has it.
  void begin(cudaStream_t stream, const std::string& what);
  void end(cudaStream_t stream);

  // While NCCL makes progress on the host, for itself, as for a first message or the start.
  // `doing` may be empty: nothing of that kind any more.
  void on_host(const std::string& doing);

  // "all_reduce of x along gpu"
  std::string describe(const char* kind, const std::string& name) const;

  // From any thread.
  CollectivePlace place();

 private:
  CollectivePlace place_of(uint64_t collective) const;
  // The number by which marks name it.
  uint64_t name_of(const std::string& what);
  void mark(cudaStream_t stream, bool comes);

  std::string group_;
  PinnedMemory marks_;  // NcclMarks
  DeviceMemory count_;  // uint64_t: collectives that came
  uint64_t name_ = 0;   // of the call that is being given
  std::mutex mutex_;    // of what follows
  std::vector<std::string> names_ = {""};
  std::map<std::string, uint64_t> numbers_;  // of names
  int64_t given_ = 0;                        // calls
  bool giving_ = false;                      // the last of them has not returned
  std::pair<uint64_t, uint64_t> seen_;       // by place(): came, ended
  double since_ = 0.0;
  std::string host_doing_;
  double host_since_ = 0.0;
};

}  // namespace hidup
