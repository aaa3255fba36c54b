#include "comm/heartbeat.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "comm/mpi_check.h"
#include "comm/mpi_session.h"
#include "device/device.h"

namespace hidup {
namespace {

constexpr double kPeriod = 0.25;  // seconds between two signs of life
constexpr double kGrace = 2.0;    // seconds to come back after the whole job was stopped

struct Sign {
  Progress progress;
  int64_t good_bye = 0;
};
constexpr int kSignBytes = sizeof(Sign);

}  // namespace

class Heartbeat::Ring {
 public:
  Ring(double timeout, std::function<Progress()> here,
       std::function<std::string(const Progress&)> describe)
      : timeout_(timeout), here_(std::move(here)), describe_(std::move(describe)) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &group_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(group_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(group_, &size_), "MPI_Comm_size");
    if (size_ > 1) {
      thread_ = std::thread([this] { run(); });
    }
  }

  ~Ring() {
    closing_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
    MPI_Comm_free(&group_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

 private:
  void run() {
    try {
      watch();
    } catch (const Error& error) {
      abort_all_ranks(error.code(), error.what());
    }
  }

  void watch() {
    double deadline = monotonic_seconds() + timeout_;
    double looked = monotonic_seconds();
    bool graced = false;
    bool said_good_bye = false;
    while (!said_good_bye || !neighbour_left_) {
      if (!said_good_bye) {
        said_good_bye = closing_.load();
        send(said_good_bye);
      }
      const bool heard = receive();
      const double now = monotonic_seconds();
      if (heard) {
        deadline = now + timeout_;
        graced = false;
      } else if (now - looked > 4 * kPeriod && !graced) {
        // This process was stopped itself, so the neighbour may have been, too (a
        // suspended laptop, say): it gets a moment, once.
        deadline = std::max(deadline, now + kGrace);
        graced = true;
      }
      looked = now;
      if (!neighbour_left_ && now > deadline) {
        abort_all_ranks(ExitCode::communication,
                        fmt::format("rank {} gave no sign of life for {:.0f} s; it was {}",
                                    (rank_ + 1) % size_, timeout_, describe_(last_)));
      }
      // Short naps: the end of a run need not wait for a whole period.
      for (int nap = 0; nap < 25 && !closing_.load(); ++nap) {
        std::this_thread::sleep_for(std::chrono::duration<double>(kPeriod / 25));
      }
      if (closing_.load()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  void send(bool good_bye) {
    const Sign sign{here_(), good_bye ? 1 : 0};
    check_mpi(MPI_Send(&sign, kSignBytes, MPI_BYTE, (rank_ + size_ - 1) % size_, 0, group_),
              "sending a sign of life");
  }

  bool receive() {
    bool any = false;
    for (int waiting = 1; waiting != 0;) {
      const int right = (rank_ + 1) % size_;
      check_mpi(MPI_Iprobe(right, 0, group_, &waiting, MPI_STATUS_IGNORE), "listening for life");
      if (waiting != 0) {
        Sign sign;
        check_mpi(MPI_Recv(&sign, kSignBytes, MPI_BYTE, right, 0, group_, MPI_STATUS_IGNORE),
                  "receiving a sign of life");
        last_ = sign.progress;
        neighbour_left_ = sign.good_bye != 0;
        any = true;
      }
    }
    return any;
  }

  double timeout_;
  std::function<Progress()> here_;
  std::function<std::string(const Progress&)> describe_;
  MPI_Comm group_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  Progress last_;
  bool neighbour_left_ = false;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

Heartbeat::Heartbeat(double timeout_s, std::function<Progress()> here,
                     std::function<std::string(const Progress&)> describe)
    : ring_(std::make_unique<Ring>(timeout_s, std::move(here), std::move(describe))) {}

Heartbeat::~Heartbeat() = default;

}  // namespace hidup
