// Groups of NCCL calls. For the sources of this folder only.
#pragma once

#include <nccl.h>

namespace hidup {

// Calls that NCCL fuses into one kernel. result() ends the group.
class NcclGroup {
 public:
  NcclGroup() { add(ncclGroupStart()); }
  void add(ncclResult_t result) {
    if (result_ == ncclSuccess && result != ncclInProgress) {
      result_ = result;
    }
  }
  ncclResult_t result() {
    const ncclResult_t ended = ncclGroupEnd();
    return result_ == ncclSuccess ? ended : result_;
  }

 private:
  ncclResult_t result_ = ncclSuccess;
};

}  // namespace hidup
