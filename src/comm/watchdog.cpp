#include "comm/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "comm/attendance.h"
#include "comm/heartbeat.h"
#include "comm/mpi_check.h"
#include "comm/mpi_session.h"
#include "comm/patient_yield.h"
#include "comm/rank_numbers.h"
#include "comm/standing.h"
#include "core/failure.h"
#include "device/device.h"

namespace hidup {
namespace {

constexpr double kLookPeriod = 0.05;  // seconds between two looks
constexpr double kAnswer = 1.0;       // seconds that rank 0 waits for the other ranks' standings
constexpr double kEndPatience = 5.0;  // seconds that a rank with a report waits for the end
constexpr double kAbort = 2.0;        // seconds that a group may take to abort
constexpr double kStopped = 1.0;      // a longer pause between two looks means a stopped process

// The kinds of messages between ranks, which are their tags.
enum Tag { kReport = 1, kQuestion = 2, kAnswers = 3, kGoOn = 4 };

// The groups of this process; never destroyed, because groups may end last of all.
struct Groups {
  std::mutex mutex;  // held while groups are looked at
  std::vector<WatchedGroup*> all;
};
Groups& groups() {
  static auto* const groups = new Groups;
  return *groups;
}

}  // namespace

class Watchdog::Thread {
 public:
  Thread(double timeout, Heartbeat* heartbeat) : timeout_(timeout), heartbeat_(heartbeat) {
    const PatientWait wait;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(world_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(world_, &size_), "MPI_Comm_size");
    thread_ = std::thread([this] { run(); });
  }

  ~Thread() {
    closing_ = true;
    thread_.join();
    if (std::uncaught_exceptions() == 0) {  // otherwise the other ranks may never come
      const PatientWait wait;
      MPI_Comm_free(&world_);
    }
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void set_timeout(double timeout) { timeout_ = timeout; }

  [[noreturn]] void lose(const std::string& message) {
    {
      const std::lock_guard lock(lost_mutex_);
      if (lost_.empty()) {
        lost_ = fmt::format("rank {}: {}", number_of_rank(rank_), message);
      }
    }
    while (true) {  // the thread ends the process
      std::this_thread::sleep_for(std::chrono::hours(1));
    }
  }

 private:
  void run() {
    const PatientWait wait;
    try {
      while (!closing_.load()) {
        notice_moves();
        look();
        listen();
        conclude();
        std::this_thread::sleep_for(std::chrono::duration<double>(kLookPeriod));
      }
    } catch (...) {
      const Failure failure = current_failure();
      abort_all_ranks(failure.code, failure.message);
    }
  }

  // Counts this process's return from a stop as a move, which gives the others time to return.
  void notice_moves() {
    const double now = monotonic_seconds();
    const Progress progress = heartbeat_ == nullptr ? Progress{} : heartbeat_->here().first;
    const std::pair moves(Attendance::moves(), progress);
    if (moves != moves_ || now - looked_ > kStopped) {
      moves_ = moves;
      moved_ = now;
    }
    looked_ = now;
  }

  // Reports this rank's problem to rank 0. Ends all ranks itself where rank 0 does not do so in
  // time and a device collective is waiting.
  void look() {
    if (told_) {
      if (monotonic_seconds() - *told_ > kEndPatience && !is_patient(problem_)) {
        end(problem_.failure.empty() ? explain({{number_of_rank(rank_), problem_}})
                                     : problem_.failure);
      }
      return;
    }
    Standing here = standing();
    if (here.failure.empty() && !is_late(here)) {
      return;
    }
    told_ = monotonic_seconds();
    problem_ = here;
    if (rank_ == 0) {
      take_report(0, std::move(here));
    } else {
      send(0, kReport, print(here));
    }
  }

  bool is_late(const Presence& presence) const {
    return presence.place.waiting && presence.place.seconds > timeout_;
  }
  bool is_late(const Standing& standing) const {
    return std::ranges::any_of(standing.at, [&](const Presence& presence) {
      return is_late(presence) && (!presence.place.patient || standing.idle > timeout_);
    });
  }
  // Returns true if only host threads wait.
  bool is_patient(const Standing& standing) const {
    return standing.failure.empty() && std::ranges::none_of(standing.at, [&](const Presence& at) {
             return is_late(at) && !at.place.patient;
           });
  }

  Standing standing() {
    Standing standing{.idle = monotonic_seconds() - moved_};
    Presence last;
    {
      const std::lock_guard lock(lost_mutex_);
      standing.failure = lost_;
    }
    {
      const std::lock_guard lock(groups().mutex);
      for (WatchedGroup* group : groups().all) {
        look_at(*group, standing, last);
      }
    }
    Progress progress;
    if (heartbeat_ != nullptr) {
      std::tie(progress, standing.where) = heartbeat_->here();
    }
    standing.busy = standing.at.empty() && progress.instruction == -1;
    if (standing.at.empty() && !last.members.empty()) {
      standing.at.push_back(std::move(last));
    }
    return standing;
  }

  // last: the collective that ended last; one of a device precedes those of the host.
  void look_at(WatchedGroup& group, Standing& standing, Presence& last) const {
    Presence here{group.members(), group.place()};
    const std::string failure = standing.failure.empty() ? group.failure() : "";
    if (!failure.empty()) {
      const int number = number_of_rank(rank_);
      standing.failure = here.place.waiting
                             ? fmt::format("rank {}: {}: {}", number, here.place.name, failure)
                             : fmt::format("rank {}: {}", number, failure);
    }
    const auto recent = [](const Presence& at) {
      return std::tuple(!at.members.empty(), !at.place.patient, at.place.order);
    };
    if (here.place.waiting) {
      standing.at.push_back(std::move(here));
    } else if (recent(here) > recent(last)) {
      last = std::move(here);
    }
  }

  void listen() {
    for (int waiting = 1; waiting != 0;) {
      MPI_Status status;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world_, &waiting, &status), "the watchdog");
      if (waiting == 0) {
        return;
      }
      int length = 0;
      check_mpi(MPI_Get_count(&status, MPI_CHAR, &length), "the watchdog");
      std::string text(static_cast<size_t>(length), '\0');
      check_mpi(MPI_Recv(text.data(), length, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, world_,
                         MPI_STATUS_IGNORE),
                "the watchdog");
      take(static_cast<Tag>(status.MPI_TAG), status.MPI_SOURCE, text);
    }
  }

  // An answer begins with the number of its question.
  void take(Tag tag, int from, const std::string& text) {
    switch (tag) {
      case kQuestion:
        send(0, kAnswers, text + "\n" + print(standing()));
        break;
      case kReport:
        take_report(from, parse_standing(text));
        break;
      case kAnswers:
        if (const size_t end = text.find('\n');
            asked_ && text.substr(0, end) == std::to_string(question_)) {
          standings_.try_emplace(number_of_rank(from),
                                 parse_standing(text.substr(end + 1)));  // a report says more
        }
        break;
      case kGoOn:
        told_.reset();
    }
  }

  // Runs on rank 0.
  void take_report(int rank, Standing report) {
    if (!report.failure.empty()) {
      end(report.failure);
    }
    if (!asked_) {
      asked_ = monotonic_seconds();
      ++question_;
      for (int other = 1; other < size_; ++other) {
        send(other, kQuestion, std::to_string(question_));
      }
      standings_[0] = standing();
    }
    standings_[number_of_rank(rank)] = std::move(report);
    reported_.insert(rank);
  }

  // Runs on rank 0, and acts once all ranks have answered or had the time to. Ranks that still wait
  // may report again; until then rank 0 asks nothing for as long as an answer may take.
  void conclude() {
    const bool all = standings_.size() == static_cast<size_t>(size_);
    if (!asked_ || (!all && monotonic_seconds() - *asked_ < kAnswer)) {
      return;
    }
    if (nobody_moves(all)) {
      end(explain(standings_));
    }
    if (monotonic_seconds() - *asked_ < kAnswer) {
      return;
    }
    for (const int rank : reported_) {
      rank == 0 ? told_.reset() : send(rank, kGoOn, "");
    }
    reported_.clear();
    standings_.clear();
    asked_.reset();
  }

  // all: every rank has answered. A silent rank may move; if it is lost, the heartbeat says so.
  bool nobody_moves(bool all) const {
    const auto device_waits = [this](const auto& standing) { return !is_patient(standing.second); };
    const auto stands = [this](const auto& standing) {
      return !standing.second.busy && standing.second.idle > timeout_;
    };
    return std::ranges::any_of(standings_, device_waits) ||
           (all && std::ranges::all_of(standings_, stands));
  }

  void send(int to, Tag tag, const std::string& text) {
    // Nothing waits for the message: the receiver may be gone.
    const std::string& kept = sent_.emplace_back(text);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(
        MPI_Isend(kept.data(), static_cast<int>(kept.size()), MPI_CHAR, to, tag, world_, &request),
        "the watchdog");
    check_mpi(MPI_Request_free(&request), "the watchdog");
  }

  // Frees this rank's device first, for a limited time: the process ends in any case.
  [[noreturn]] void end(const std::string& message) {
    const std::lock_guard lock(groups().mutex);  // the groups stay
    const auto done = std::make_shared<std::atomic<bool>>(false);
    std::thread([all = groups().all, done] {
      for (WatchedGroup* group : all) {
        group->abort();
      }
      *done = true;
    }).detach();
    const double began = monotonic_seconds();
    while (!done->load() && monotonic_seconds() - began < kAbort) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    abort_all_ranks(ExitCode::communication, message);
  }

  std::atomic<double> timeout_;
  Heartbeat* heartbeat_;
  MPI_Comm world_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::mutex lost_mutex_;
  std::string lost_;
  std::pair<int64_t, Progress> moves_;  // of this rank, at the last look
  double moved_ = monotonic_seconds();
  double looked_ = moved_;
  Standing problem_;             // of this rank
  std::optional<double> told_;   // time of this rank's report
  std::optional<double> asked_;  // on rank 0: time of its question
  int64_t question_ = 0;         // the question's number
  Standings standings_;
  std::set<int> reported_;
  std::deque<std::string> sent_;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

Watchdog::Watchdog(double timeout_s, Heartbeat* heartbeat)
    : thread_(std::make_unique<Thread>(timeout_s, heartbeat)) {}

Watchdog::~Watchdog() = default;

void Watchdog::set_timeout(double timeout_s) {
  thread_->set_timeout(timeout_s);
}

void Watchdog::add(WatchedGroup& group) {
  const std::lock_guard lock(groups().mutex);
  groups().all.push_back(&group);
}

void Watchdog::remove(WatchedGroup& group) {
  const std::lock_guard lock(groups().mutex);
  std::erase(groups().all, &group);
}

void Watchdog::lose(const std::string& message) {
  thread_->lose(message);
}

}  // namespace hidup
