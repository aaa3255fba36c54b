// A part of a test in a process of its own, which is killed, runs out of space or exits.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>

namespace hidup {

class Child {
 public:
  // Sends a number from the child to its parent.
  using Report = std::function<void(int64_t)>;

  // Runs `body` and leaves through std::exit() with its result. SIGALRM ends a child that hangs,
  // SIGABRT one that throws.
  explicit Child(const std::function<int(const Report&)>& body) noexcept {
    int ends[2] = {};
    if (pipe(ends) != 0) {
      std::abort();
    }
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      alarm(60);
      const Report report = [&](int64_t value) {
        if (write(ends[1], &value, sizeof value) != sizeof value) {
          std::abort();
        }
      };
      std::exit(body(report));
    }
    close(ends[1]);
    reports_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      kill();
    }
    close(reports_);
  }

  // Returns the next report, or -1 when the child has ended.
  int64_t next() {
    int64_t value = -1;
    return read(reports_, &value, sizeof value) == sizeof value ? value : -1;
  }

  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }

  // Returns the exit status, or minus the signal that ended the child.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int reports_ = -1;
};

}  // namespace hidup
