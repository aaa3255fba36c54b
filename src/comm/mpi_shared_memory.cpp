#include "comm/mpi_shared_memory.h"

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "comm/mpi_check.h"
#include "comm/patient_yield.h"
#include "core/check.h"
#include "core/room.h"
#include "core/units.h"

namespace hidup {
namespace {

constexpr size_t kLine = 64;

// Throws Error(file) where the file system of Open MPI's shared windows has no room. Open MPI would
// call that an internal error, and the first write beyond the room would end the process.
void check_room(int64_t bytes) {
  constexpr int64_t kRoomBeside = int64_t{64} << 10;  // Open MPI's own data in the file
  const char* wanted = std::getenv("OMPI_MCA_osc_sm_backing_directory");
  const std::string folder = wanted != nullptr ? wanted : "/dev/shm";
  const std::optional<int64_t> free = free_bytes(folder);
  if (free && *free < bytes + kRoomBeside) {
    fail(
        ExitCode::file,
        "{}: has {} free, and memory that the ranks of a host share needs {} there: make it larger "
        "(docker run --shm-size, mount -o remount,size=)",
        folder, format_bytes(*free), format_bytes(bytes + kRoomBeside));
  }
}

class SharedWindow {
 public:
  SharedWindow(MPI_Comm group, int64_t bytes) {
    const PatientWait wait;
    check_mpi(MPI_Comm_split_type(group, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &neighbours_),
              "MPI_Comm_split_type");
    check_mpi(MPI_Comm_set_errhandler(neighbours_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    int rank = 0;
    check_mpi(MPI_Comm_rank(neighbours_, &rank), "MPI_Comm_rank");
    const MPI_Aint mine =
        rank == 0 ? static_cast<MPI_Aint>(bytes) + static_cast<MPI_Aint>(kLine) : 0;
    if (rank == 0) {
      check_room(bytes);
    }
    void* base = nullptr;
    check_mpi(MPI_Win_allocate_shared(mine, 1, MPI_INFO_NULL, neighbours_, &base, &window_),
              "MPI_Win_allocate_shared");
    check_mpi(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
    MPI_Aint size = 0;
    int unit = 0;
    check_mpi(MPI_Win_shared_query(window_, 0, &size, &unit, &base), "MPI_Win_shared_query");
    size_t space = static_cast<size_t>(size);
    data_ = static_cast<std::byte*>(std::align(kLine, static_cast<size_t>(bytes), base, space));
    if (rank == 0) {
      std::memset(data_, 0, static_cast<size_t>(bytes));
    }
    check_mpi(MPI_Barrier(neighbours_), "MPI_Barrier");
  }

  ~SharedWindow() {
    const PatientWait wait;
    MPI_Win_free(&window_);
    MPI_Comm_free(&neighbours_);
  }
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  std::byte* data() const { return data_; }

 private:
  MPI_Comm neighbours_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::byte* data_ = nullptr;
};

}  // namespace

std::shared_ptr<std::byte> share_host_memory(MPI_Comm group, int64_t bytes) {
  const auto window = std::make_shared<SharedWindow>(group, bytes);
  return {window, window->data()};
}

bool on_one_host(MPI_Comm group) {
  const PatientWait wait;
  MPI_Comm neighbours = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(group, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &neighbours),
            "MPI_Comm_split_type");
  int here = 0;
  int all = 0;
  check_mpi(MPI_Comm_size(neighbours, &here), "MPI_Comm_size");
  check_mpi(MPI_Comm_size(group, &all), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&neighbours), "MPI_Comm_free");
  return here == all;
}

}  // namespace hidup
