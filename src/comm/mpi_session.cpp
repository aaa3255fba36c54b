#include "comm/mpi_session.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "comm/launched.h"
#include "comm/local_watch.h"
#include "comm/mpi_check.h"
#include "comm/mpi_communicator.h"
#include "comm/patient_yield.h"
#include "comm/rank_numbers.h"
#include "core/failure.h"
#include "core/log.h"
#include "core/room.h"
#include "core/text.h"
#include "core/units.h"

namespace hidup {
namespace {

// Timeouts for the first moments of a run, until the deck sets others.
constexpr double kHeartbeatTimeout = 5.0;     // seconds
constexpr double kCollectiveTimeout = 600.0;  // seconds

// A large job on a slow file system may take minutes. Its host notices a stopped rank earlier.
constexpr double kStartLimit = 300.0;  // seconds

// Open MPI's needs at its start: with less it hangs or ends the process.
constexpr int64_t kStartRoom = int64_t{512} << 20;
constexpr int kStartThreads = 11;  // MPI's own, heartbeat, watchdog, four streams, the timing file

// Bytes of Open MPI's files when it starts without mpirun: with less room it ends the process
// without saying why. (mpirun makes the files for its ranks, so those need no check.)
constexpr int64_t kStartFiles = (int64_t{8} << 20) + (int64_t{64} << 10);

constexpr unsigned kAbortLimit = 3;  // seconds that MPI_Abort may take

// A plain srun without PMIx makes Open MPI give every process a world of its own: N jobs of one
// rank that overwrite each other's files.
void refuse_singletons_under_slurm() {
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks == nullptr) {
    tasks = std::getenv("SLURM_NTASKS");
  }
  const bool launched =
      std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr;
  if (tasks != nullptr && std::atoi(tasks) > 1 && !launched) {
    const char* task = std::getenv("SLURM_PROCID");
    if (task == nullptr || std::string_view(task) == "0") {
      fail(ExitCode::unavailable,
           "Slurm has {} tasks, but MPI would start each as a world of its own, because srun gave "
           "it no PMIx: start with `srun --mpi=pmix` or with mpirun",
           tasks);
    }
    throw Error(ExitCode::unavailable, "");  // task 0 prints the message once
  }
}

// Checks the room in the folder that Open MPI chooses. Throws Error(file).
void check_temporary_folder() {
  if (launched_rank() >= 0) {
    return;
  }
  std::string described = "/tmp, as TMPDIR is not set";
  std::string folder = "/tmp";
  for (const char* name :
       {"TMP", "TEMP", "TMPDIR", "OMPI_MCA_orte_tmpdir_base"}) {  // the last one counts
    if (const char* text = std::getenv(name); text != nullptr && *text != '\0') {
      folder = text;
      described = fmt::format("{}, which {} names", folder, name);
    }
  }
  const std::optional<int64_t> free = free_bytes(folder);
  if (free && *free < kStartFiles) {
    fail(
        ExitCode::file,
        "{}: has {} free, and the start of MPI needs {} there: make room, or set TMPDIR to another "
        "folder",
        described, format_bytes(*free), format_bytes(kStartFiles));
  }
}

// Runs where an uncaught exception is thrown; its stack is still there.
[[noreturn]] void end_all_ranks() {
  if (!std::current_exception()) {
    abort_all_ranks(ExitCode::internal, "std::terminate() was called");
  }
  const Failure failure = current_failure();
  abort_all_ranks(failure.code, failure.message);
}

}  // namespace

void check_mpi(int status, std::string_view doing) {
  if (status == MPI_SUCCESS) {
    return;
  }
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  fail(ExitCode::communication, "{}: {}", doing,
       std::string_view(text, static_cast<size_t>(length)));
}

MpiSession::MpiSession(int* argc, char*** argv) : end_limit_(kStartLimit) {
  const PatientWait wait;
  refuse_singletons_under_slurm();
  reserve_memory_for_failure();
  std::set_terminate(end_all_ranks);
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  log::set_rank(std::max(0, launched_rank()), launched_ranks(), host);
  check_address_space(kStartRoom, "the start of MPI");
  check_threads(kStartThreads, "the start of MPI");
  check_temporary_folder();
  // The communication thread shares its cores with computation, so it must yield while it waits.
  // A receiver asks for long messages by fragments, and over TCP its requests queue behind the data
  // that it sends itself. Open MPI asks for whole messages, so the two directions of an exchange
  // often alternate. With two fragments of 128 KiB they overlap, and hide a round trip of 100 us at
  // 10 Gbps. A user's own settings take precedence.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  setenv("OMPI_MCA_btl_tcp_rdma_pipeline_frag_size", "131072", 0);
  setenv("OMPI_MCA_pml_ob1_recv_pipeline_depth", "2", 0);
  int provided = MPI_THREAD_SINGLE;
  {
    const LocalWatch watch("MPI starts", kStartLimit);
    check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  }
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_MULTIPLE) {
    if (log::is_rank_zero()) {
      log::error(
          "this MPI library gives no MPI_THREAD_MULTIPLE, which communication beside "
          "computation needs: use a build of it with thread support");
    }
    MPI_Finalize();
    throw Error(ExitCode::unavailable, "");
  }
  heartbeat_.emplace(kHeartbeatTimeout);
  watchdog_.emplace(kCollectiveTimeout, &*heartbeat_);

  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  check_mpi(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
  host_ = shown(std::string_view(name, static_cast<size_t>(length)));
  world_ = make_mpi_communicator(MPI_COMM_WORLD);
  log::set_rank(world_->rank(), world_->size(), host_);
  find_neighbours();
}

void MpiSession::set_timeouts(double heartbeat, double collective) {
  heartbeat_->set_timeout(heartbeat);
  watchdog_->set_timeout(collective);
}

void MpiSession::find_neighbours() {
  MPI_Comm neighbours = MPI_COMM_NULL;
  check_mpi(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &neighbours),
      "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(neighbours, &local_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_free(&neighbours), "MPI_Comm_free");
}

void MpiSession::order_ranks(const std::vector<int>& order) {
  check(std::ssize(order) == world_->size() && order[0] == 0, "rank 0 keeps its number");
  std::vector<int> numbers(order.size());
  for (size_t number = 0; number < order.size(); ++number) {
    numbers.at(static_cast<size_t>(order[number])) = static_cast<int>(number);
  }
  const int mine = numbers[static_cast<size_t>(world_->rank())];
  number_ranks(std::move(numbers));
  const PatientWait wait;
  MPI_Comm ordered = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(MPI_COMM_WORLD, 0, mine, &ordered), "MPI_Comm_split");
  world_ = make_mpi_communicator(ordered);
  check_mpi(MPI_Comm_free(&ordered), "MPI_Comm_free");
  log::set_rank(world_->rank(), world_->size(), host_);
}

MpiSession::~MpiSession() {
  if (std::uncaught_exceptions() > 0) {
    static_cast<void>(world_.release());
    return;
  }
  const PatientWait wait;
  world_.reset();
  watchdog_.reset();
  heartbeat_->leave();
  std::optional<LocalWatch> watch;
  try {
    watch.emplace("MPI ends", end_limit_);
  } catch (const std::system_error&) {  // no thread is left, so nothing watches the end
  }
  MPI_Finalize();
}

std::string mpi_library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string_view version(text, static_cast<size_t>(length));
  return std::string(version.substr(0, version.find_first_of(",\n")));
}

LibraryVersion mpi_library() {
  const std::string text = mpi_library_version();
#ifdef OPEN_MPI
  const std::string_view name = "Open MPI v";
  if (text.starts_with(name)) {
    return {"Open MPI",
            fmt::format("{}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            text.substr(name.size())};
  }
#endif
  return {text, "", ""};
}

namespace {

std::atomic<int> g_abort_code = 0;

void exit_at_once(int) {
  _exit(g_abort_code.load());
}

}  // namespace

void abort_all_ranks(ExitCode code, const std::string& message) {
  static std::mutex first;
  first.lock();  // never unlocked: the process ends
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) {
    end_without_mpi(code, message);
  }
  say_last_words(message);
  // A rank without memory, say, may wait in MPI_Abort for ever.
  g_abort_code = static_cast<int>(code);
  std::signal(SIGALRM, exit_at_once);
  alarm(kAbortLimit);
  const PatientWait wait;
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

}  // namespace hidup
