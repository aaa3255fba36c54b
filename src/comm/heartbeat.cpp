#include "comm/heartbeat.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/mpi_check.h"
#include "comm/mpi_session.h"
#include "comm/patient_yield.h"
#include "comm/rank_numbers.h"
#include "core/failure.h"
#include "device/device.h"

namespace hidup {
namespace {

constexpr double kPeriod = 0.25;  // seconds between two signs of life
constexpr double kGrace = 2.0;    // seconds to recover after the whole job was stopped

struct Sign {
  Progress progress;
  int64_t good_bye = 0;
};
constexpr int kSignBytes = sizeof(Sign);

}  // namespace

class Heartbeat::Ring {
 public:
  explicit Ring(double timeout) : timeout_(timeout) {
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    if (size_ > 1) {
      thread_ = std::thread([this] { run(); });
    }
  }

  ~Ring() {
    stopping_ = true;
    join();
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void set_timeout(double timeout) { timeout_ = timeout; }

  void leave() {
    leaving_ = true;
    join();
  }

  void guide(std::function<Progress()> here, std::function<std::string(const Progress&)> describe) {
    const std::lock_guard lock(mutex_);
    here_ = std::move(here);
    describe_ = std::move(describe);
  }

  std::pair<Progress, std::string> here() {
    const std::lock_guard lock(mutex_);
    const Progress progress = here_ ? here_() : Progress{};
    return {progress, describe_ ? describe_(progress) : ""};
  }

 private:
  void join() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  void run() {
    const PatientWait wait;
    try {
      watch();
    } catch (...) {
      const Failure failure = current_failure();
      abort_all_ranks(failure.code, failure.message);
    }
  }

  void watch() {
    double heard = monotonic_seconds();
    double looked = heard;
    double grace = 0.0;  // time until which silence is forgiven
    bool graced = false;
    while (!stopping_ && !(said_good_bye_ && neighbour_left_ && sent())) {
      send();
      const bool any = receive();
      const double now = monotonic_seconds();
      if (any) {
        heard = now;
        graced = false;
      } else if (now - looked > 4 * kPeriod && !graced) {
        // This process itself was stopped, so the neighbour may have been, too (on a suspended
        // laptop, say): it gets a moment, once.
        grace = now + kGrace;
        graced = true;
      }
      looked = now;
      if (!neighbour_left_ && now > std::max(heard + timeout_, grace)) {
        report_loss();
      }
      nap();
    }
  }

  // Naps briefly, so that the end of a run need not wait for a whole period.
  void nap() const {
    for (int i = 0; i < 25 && !leaving_ && !stopping_; ++i) {
      std::this_thread::sleep_for(std::chrono::duration<double>(kPeriod / 25));
    }
    if (leaving_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // Returns true if the last sign has been sent. Does not wait, because this thread must listen.
  bool sent() {
    int done = 1;
    check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "sending a sign of life");
    return done != 0;
  }

  void send() {
    if (said_good_bye_ || !sent()) {
      return;
    }
    said_good_bye_ = leaving_;
    {
      const std::lock_guard lock(mutex_);
      sign_ = {here_ ? here_() : Progress{}, said_good_bye_ ? 1 : 0};
    }
    check_mpi(MPI_Isend(&sign_, kSignBytes, MPI_BYTE, (rank_ + size_ - 1) % size_, 0,
                        MPI_COMM_WORLD, &request_),
              "sending a sign of life");
  }

  bool receive() {
    bool any = false;
    for (int waiting = 1; waiting != 0;) {
      const int right = (rank_ + 1) % size_;
      check_mpi(MPI_Iprobe(right, 0, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE),
                "listening for life");
      if (waiting != 0) {
        Sign sign;
        check_mpi(
            MPI_Recv(&sign, kSignBytes, MPI_BYTE, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            "receiving a sign of life");
        last_ = sign.progress;
        neighbour_left_ = sign.good_bye != 0;
        any = true;
      }
    }
    return any;
  }

  [[noreturn]] void report_loss() {
    const std::lock_guard lock(mutex_);
    abort_all_ranks(ExitCode::communication,
                    fmt::format("rank {} gave no sign of life for {:.0f} s{}",
                                number_of_rank((rank_ + 1) % size_), timeout_.load(),
                                describe_ ? "; it was " + describe_(last_) : ""));
  }

  std::atomic<double> timeout_;
  std::mutex mutex_;  // guards here_ and describe_
  std::function<Progress()> here_;
  std::function<std::string(const Progress&)> describe_;
  int rank_ = 0;
  int size_ = 1;
  Sign sign_;  // the message of request_
  MPI_Request request_ = MPI_REQUEST_NULL;
  Progress last_;
  bool said_good_bye_ = false;
  bool neighbour_left_ = false;
  std::atomic<bool> leaving_ = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;  // last, because it uses all members above
};

Heartbeat::Heartbeat(double timeout_s) : ring_(std::make_unique<Ring>(timeout_s)) {}

Heartbeat::~Heartbeat() = default;

void Heartbeat::set_timeout(double timeout_s) {
  ring_->set_timeout(timeout_s);
}

void Heartbeat::leave() {
  ring_->leave();
}

std::pair<Progress, std::string> Heartbeat::here() {
  return ring_->here();
}

Heartbeat::Guide::Guide(Heartbeat& heartbeat, std::function<Progress()> here,
                        std::function<std::string(const Progress&)> describe)
    : heartbeat_(heartbeat) {
  heartbeat_.ring_->guide(std::move(here), std::move(describe));
}

Heartbeat::Guide::~Guide() {
  heartbeat_.ring_->guide(nullptr, nullptr);
}

}  // namespace hidup
