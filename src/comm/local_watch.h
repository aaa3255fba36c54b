// Watches the ranks of this host while MPI starts or ends, when they cannot hear of each other
// through MPI: it waits for a stopped rank for ever.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace hidup {

class LocalWatch {
 public:
  // As long as it lives. Ends the process with exit code 5, and a message of one of the host's
  // ranks, when another of them has been stopped (SIGSTOP) for some seconds, or after limit_s.
  // doing: "MPI starts", for the message. Without a launcher that names ranks nothing happens but
  // at the limit.
  LocalWatch(std::string doing, double limit_s);
  ~LocalWatch();
  LocalWatch(const LocalWatch&) = delete;
  LocalWatch& operator=(const LocalWatch&) = delete;

 private:
  void run();
  // Waits so long; whether the watch goes on.
  bool wait(double seconds);

  std::string doing_;
  double limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace hidup
