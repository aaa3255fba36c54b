#include "comm/watchdog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <tuple>
#include <utility>

#include "comm/mpi_check.h"
#include "comm/mpi_session.h"
#include "comm/patient_yield.h"
#include "core/failure.h"
#include "device/device.h"

namespace hidup {
namespace {

constexpr double kLookPeriod = 0.05;  // seconds between two looks
constexpr double kAnswer = 1.0;  // rank 0 waits so long for the other ranks to say where they are
constexpr double kEndPatience = 5.0;  // a rank that told rank 0 waits so long for the end
constexpr double kAbort = 2.0;        // a group may take so long to abort

// What ranks tell each other, by the tag of the message.
enum Tag { kReport = 1, kQuestion = 2, kAnswers = 3 };

// Where a rank is: in the group where it waits, or else where it came last.
struct Standing {
  std::string failure;
  std::vector<int> members;
  CollectivePlace place;

  bool waits_in(const Standing& other) const {
    return place.waiting && place.number == other.place.number && members == other.members;
  }
};

std::string print(const Standing& standing) {
  const CollectivePlace& place = standing.place;
  return fmt::format("{} {} {} {} {}\n{}\n{}", place.waiting ? 1 : 0, place.number, place.seconds,
                     standing.members.size(), fmt::join(standing.members, " "), place.name,
                     standing.failure);
}

Standing parse(const std::string& text) {
  Standing standing;
  std::istringstream in(text);
  size_t members = 0;
  in >> standing.place.waiting >> standing.place.number >> standing.place.seconds >> members;
  standing.members.resize(members);
  for (int& member : standing.members) {
    in >> member;
  }
  in.ignore(2, '\n');
  std::getline(in, standing.place.name);
  std::getline(in, standing.failure, '\0');
  return standing;
}

// A rank that waits, and one that it waits for; none where all came.
struct Wait {
  int rank = 0;
  std::optional<int> missing;
  bool missing_waits = false;  // itself for another rank
};

// What holds up the ranks: a wait for a rank that waits for nobody itself, or else one that does
// not end though all came; of several the longest.
std::optional<Wait> worst_wait(const std::map<int, Standing>& standings) {
  std::optional<Wait> worst;
  std::tuple<bool, bool, double> most;
  const auto consider = [&](const Wait& wait) {
    const std::tuple key(wait.missing && !wait.missing_waits, !wait.missing,
                         standings.at(wait.rank).place.seconds);
    if (!worst || key > most) {
      worst = wait;
      most = key;
    }
  };
  for (const auto& [rank, standing] : standings) {
    if (!standing.place.waiting) {
      continue;
    }
    bool complete = true;
    for (const int member : standing.members) {
      const auto found = standings.find(member);
      if (found == standings.end() || !found->second.waits_in(standing)) {
        complete = false;
        consider({rank, member, found != standings.end() && found->second.place.waiting});
      }
    }
    if (complete) {
      consider({rank});
    }
  }
  return worst;
}

// What the ranks wait for, by where they are.
std::string explain(const std::map<int, Standing>& standings) {
  const std::optional<Wait> wait = worst_wait(standings);
  if (!wait) {
    return "a collective took too long, and has ended since: cluster.comm.collective_timeout";
  }
  const Standing& waiting = standings.at(wait->rank);
  const CollectivePlace& place = waiting.place;
  if (!wait->missing) {
    return fmt::format("{} does not end, though its ranks {} all came to it, rank {} {:.1f} s ago",
                       place.name, fmt::join(waiting.members, ", "), wait->rank, place.seconds);
  }
  const std::string text =
      fmt::format("rank {} did not come to {}, in which rank {} has waited for {:.1f} s",
                  *wait->missing, place.name, wait->rank, place.seconds);
  const auto missing = standings.find(*wait->missing);
  if (missing == standings.end()) {
    return text + "; it does not answer";
  }
  const std::string& name = missing->second.place.name;
  return name.empty()
             ? text + "; it has come to none yet"
             : fmt::format("{}; {} {}", text,
                           wait->missing_waits ? "it waits in" : "the last that it ended was",
                           name);
}

}  // namespace

class Watchdog::Thread {
 public:
  explicit Thread(double timeout) : timeout_(timeout) {
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
    const PatientWait wait;
    MPI_Comm_free(&world_);
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void add(WatchedGroup& group) {
    const std::lock_guard lock(mutex_);
    groups_.push_back(&group);
  }

  void remove(WatchedGroup& group) {
    const std::lock_guard lock(mutex_);
    std::erase(groups_, &group);
  }

  [[noreturn]] void lose(const std::string& message) {
    {
      const std::lock_guard lock(lost_mutex_);
      if (lost_.empty()) {
        lost_ = fmt::format("rank {}: {}", rank_, message);
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

  // Tells rank 0 what is wrong here, once; ends all ranks alone where that does not help.
  void look() {
    if (told_) {
      if (monotonic_seconds() - *told_ > kEndPatience) {
        end(problem_.failure.empty() ? explain({{rank_, problem_}}) : problem_.failure);
      }
      return;
    }
    Standing here = standing();
    if (here.failure.empty() && !(here.place.waiting && here.place.seconds > timeout_)) {
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

  Standing standing() {
    Standing standing;
    {
      const std::lock_guard lock(lost_mutex_);
      standing.failure = lost_;
    }
    const std::lock_guard lock(mutex_);
    for (WatchedGroup* group : groups_) {
      CollectivePlace place = group->place();
      const std::string failure = standing.failure.empty() ? group->failure() : "";
      if (!failure.empty()) {
        standing.failure = place.waiting
                               ? fmt::format("rank {}: {}: {}", rank_, place.name, failure)
                               : fmt::format("rank {}: {}", rank_, failure);
      }
      // One stream waits in one group at most; of those that ended, the last.
      const bool better =
          place.waiting || (!standing.place.waiting && place.order > standing.place.order);
      if (standing.members.empty() || better) {
        standing.members = group->members();
        standing.place = std::move(place);
      }
    }
    return standing;
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
      if (status.MPI_TAG == kQuestion) {
        send(0, kAnswers, print(standing()));
      } else if (status.MPI_TAG == kReport) {
        take_report(status.MPI_SOURCE, parse(text));
      } else {
        standings_.try_emplace(status.MPI_SOURCE, parse(text));  // a report says more
      }
    }
  }

  // On rank 0.
  void take_report(int rank, Standing report) {
    if (!report.failure.empty()) {
      end(report.failure);
    }
    if (!asked_) {
      asked_ = monotonic_seconds();
      for (int other = 1; other < size_; ++other) {
        send(other, kQuestion, "");
      }
      standings_[0] = standing();
    }
    standings_[rank] = std::move(report);
  }

  // On rank 0: once all said where they are, or had the time to.
  void conclude() {
    if (asked_ && (standings_.size() == static_cast<size_t>(size_) ||
                   monotonic_seconds() - *asked_ > kAnswer)) {
      end(explain(standings_));
    }
  }

  void send(int to, Tag tag, const std::string& text) {
    // Not waited for: the receiver may be gone.
    const std::string& kept = sent_.emplace_back(text);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(
        MPI_Isend(kept.data(), static_cast<int>(kept.size()), MPI_CHAR, to, tag, world_, &request),
        "the watchdog");
    check_mpi(MPI_Request_free(&request), "the watchdog");
  }

  // Frees this rank's device first, within bounds: the process is to end in any case.
  [[noreturn]] void end(const std::string& message) {
    const std::lock_guard lock(mutex_);  // the groups stay
    const auto done = std::make_shared<std::atomic<bool>>(false);
    std::thread([groups = groups_, done] {
      for (WatchedGroup* group : groups) {
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

  double timeout_;
  MPI_Comm world_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::mutex mutex_;  // held while groups are looked at
  std::vector<WatchedGroup*> groups_;
  std::mutex lost_mutex_;
  std::string lost_;
  Standing problem_;             // of this rank
  std::optional<double> told_;   // when this rank told of it
  std::optional<double> asked_;  // rank 0: when it asked the others
  std::map<int, Standing> standings_;
  std::deque<std::string> sent_;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

Watchdog::Watchdog(double timeout_s) : thread_(std::make_unique<Thread>(timeout_s)) {}

Watchdog::~Watchdog() = default;

void Watchdog::add(WatchedGroup& group) {
  thread_->add(group);
}

void Watchdog::remove(WatchedGroup& group) {
  thread_->remove(group);
}

void Watchdog::lose(const std::string& message) {
  thread_->lose(message);
}

}  // namespace hidup
