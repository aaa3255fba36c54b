// The life of MPI in this process: started once, ended or aborted once.
//
// An exception that nobody catches, in any thread, brings all ranks down from where it is thrown:
// std::terminate() is called before the stack unwinds where no handler is found, so no destructor
// waits for ranks that wait for this one.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "comm/heartbeat.h"
#include "comm/watchdog.h"
#include "core/check.h"
#include "core/version.h"

namespace hidup {

class MpiSession {
 public:
  // Starts MPI with MPI_THREAD_MULTIPLE, the heartbeat and the watchdog. Throws Error(unavailable)
  // where the library gives less, or where Slurm started several processes that MPI sees as one
  // each (srun without PMIx); Error(out_of_memory) where MPI would lack memory or threads.
  MpiSession(int* argc, char*** argv);
  // Ends MPI; all ranks must come here. While an exception unwinds it leaves MPI as it is: the
  // others may never come.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  // All ranks. Lives as long as the session.
  Communicator& world() { return *world_; }
  const std::string& host() const { return host_; }
  Heartbeat& heartbeat() { return *heartbeat_; }
  Watchdog& watchdog() { return *watchdog_; }
  // Of the two, in seconds, as the deck has them.
  void set_timeouts(double heartbeat, double collective);
  // This rank among those that share the host's memory.
  int local_rank() const { return local_rank_; }

  // The end of MPI may take so long; by default some minutes.
  void end_within(double seconds) { end_limit_ = seconds; }

 private:
  void find_neighbours();

  std::string host_;
  int local_rank_ = 0;
  double end_limit_;
  std::optional<Heartbeat> heartbeat_;
  std::optional<Watchdog> watchdog_;
  std::unique_ptr<Communicator> world_;
};

// "Open MPI v4.1.4, ..." as the loaded library calls itself, up to the first comma.
std::string mpi_library_version();

// "Open MPI", with the versions of its headers and as loaded; of another MPI the text of
// mpi_library_version(), without numbers.
LibraryVersion mpi_library();

// Prints the message with this rank's name and brings all ranks down with the
// code; where MPI is not running, end_without_mpi() does. Where several threads of a
// rank come here, the first one speaks.
[[noreturn]] void abort_all_ranks(ExitCode code, const std::string& message);

}  // namespace hidup
