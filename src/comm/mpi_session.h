// MPI's lifetime in this process: it is started once, and ended or aborted once.
//
// An uncaught exception, in any thread, aborts all ranks from where it is thrown: std::terminate()
// is called before the stack unwinds, so no destructor waits for ranks that wait for this one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/heartbeat.h"
#include "comm/watchdog.h"
#include "core/check.h"
#include "core/version.h"

namespace hidup {

class MpiSession {
 public:
  // Starts MPI with MPI_THREAD_MULTIPLE, the heartbeat and the watchdog. Throws Error(unavailable)
  // where the library provides a lower thread level, or where Slurm started several processes that
  // MPI sees as one rank each (srun without PMIx); Error(out_of_memory) if memory or threads are
  // short.
  MpiSession(int* argc, char*** argv);
  // Ends MPI; all ranks must call it. Leaves MPI running during an exception: ranks may not come.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  // Returns the group of all ranks, which lives until order_ranks() or the end of the session.
  Communicator& world() { return *world_; }
  const std::string& host() const { return host_; }
  Heartbeat& heartbeat() { return *heartbeat_; }
  Watchdog& watchdog() { return *watchdog_; }
  // Sets the deck's timeouts of the heartbeat and of the watchdog's collectives, in seconds.
  void set_timeouts(double heartbeat, double collective);
  // Returns the index of this rank among those that share the host's memory, in the order in
  // which mpirun started them.
  int local_rank() const { return local_rank_; }

  // Gives number n to the rank that mpirun numbered order[n]. Rank 0 keeps its number. Makes
  // world() anew, so groups split from it have to end first. Collective; at most once.
  void order_ranks(const std::vector<int>& order);

  // Limits the seconds that the end of MPI may take; the default is some minutes.
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

// Returns the loaded library's name for itself up to the first comma: "Open MPI v4.1.4, ..."
std::string mpi_library_version();

// Returns "Open MPI" with the versions of its headers and of the loaded library; for another MPI,
// the text of mpi_library_version() without version numbers.
LibraryVersion mpi_library();

// Prints the message with this rank's name and aborts all ranks with the code. Where MPI is not
// running, calls end_without_mpi(). If several threads of a rank call it, the first one prints.
[[noreturn]] void abort_all_ranks(ExitCode code, const std::string& message);

}  // namespace hidup
