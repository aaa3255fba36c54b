// The progress of a group's collectives, for the watchdog. For the sources of this folder only.
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

// Makes the device mark its progress before and after each collective, with small kernels in the
// order of the stream, which a graph repeats like all other work. (Events would not do: the state
// of an event that a graph records is undefined while the graph runs.)
class NcclCalls {
 public:
  // `group`: its name for people. Allocates on the current device.
  explicit NcclCalls(std::string group);
  NcclCalls(const NcclCalls&) = delete;
  NcclCalls& operator=(const NcclCalls&) = delete;

  // Are called before and after a collective is enqueued on the stream. `what`: text of describe().
  void begin(cudaStream_t stream, const std::string& what);
  void end(cudaStream_t stream);

  // Notes NCCL's work on the host, as for a first message or the start. An empty `doing` ends it.
  void on_host(const std::string& doing);

  // Returns a text such as "all_reduce of x along gpu".
  std::string describe(const char* kind, const std::string& name) const;

  // Any thread may call it.
  CollectivePlace place();

 private:
  CollectivePlace place_of(uint64_t collective) const;
  // Returns the number that stands for the name in marks.
  uint64_t name_of(const std::string& what);
  void mark(cudaStream_t stream, bool comes);

  std::string group_;
  PinnedMemory marks_;  // NcclMarks
  DeviceMemory count_;  // uint64_t: number of collectives begun
  uint64_t name_ = 0;   // of the call that is being enqueued
  std::mutex mutex_;    // guards the members below
  std::vector<std::string> names_ = {""};
  std::map<std::string, uint64_t> numbers_;  // indices in names_
  int64_t given_ = 0;                        // number of calls
  bool giving_ = false;                      // the last call has not returned
  std::pair<uint64_t, uint64_t> seen_;       // by place(): began, ended
  double since_ = 0.0;
  std::string host_doing_;
  double host_since_ = 0.0;
};

}  // namespace hidup
