// The life of MPI in this process: started once, ended or aborted once.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "core/check.h"
#include "core/version.h"

namespace hidup {

class MpiSession {
 public:
  // Starts MPI with MPI_THREAD_MULTIPLE. Throws Error(unavailable) where the
  // library gives less, or where Slurm started several processes that MPI sees
  // as one each (srun without PMIx).
  MpiSession(int* argc, char*** argv);
  // Ends MPI; all ranks must come here.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  // All ranks. Lives as long as the session.
  Communicator& world() { return *world_; }
  const std::string& host() const { return host_; }
  // This rank among those that share the host's memory, and how many they are.
  int local_rank() const { return local_rank_; }
  int local_ranks() const { return local_ranks_; }

 private:
  void find_neighbours();

  std::string host_;
  int local_rank_ = 0;
  int local_ranks_ = 1;
  std::unique_ptr<Communicator> world_;
};

// "Open MPI v4.1.4, ..." as the loaded library calls itself, up to the first comma.
std::string mpi_library_version();

// "Open MPI", with the versions of its headers and as loaded; of another MPI the text of
// mpi_library_version(), without numbers.
LibraryVersion mpi_library();

// Prints the message with this rank's name and brings all ranks down with the
// code. If MPI is not running, the process just exits. Where several threads of a
// rank come here, the first one speaks.
[[noreturn]] void abort_all_ranks(ExitCode code, const std::string& message);

}  // namespace hidup
