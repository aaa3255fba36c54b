// Watches the ranks of this host while MPI starts or ends. They cannot hear of each other through
// MPI then, and MPI waits for a stopped rank for ever.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace hidup {

class LocalWatch {
 public:
  // Watches as long as it lives. Ends the process with exit code 5, and a message from one rank of
  // the host, when another of its ranks has been stopped (SIGSTOP) for some seconds, or after
  // limit_s. doing: "MPI starts", for the message. Unless a launcher names the ranks only the limit
  // counts.
  LocalWatch(std::string doing, double limit_s);
  ~LocalWatch();
  LocalWatch(const LocalWatch&) = delete;
  LocalWatch& operator=(const LocalWatch&) = delete;

 private:
  void run();
  // Waits for so many seconds; returns true if the watch goes on.
  bool wait(double seconds);

  std::string doing_;
  double limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;  // last, because it uses all members above
};

}  // namespace hidup
