#include "comm/mpi_communicator.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "comm/mpi_check.h"
#include "core/check.h"

namespace hidup {
namespace {

// MPI-3 counts are ints: longer buffers go in pieces.
constexpr int64_t kMaxCount = int64_t{1} << 30;

int to_count(size_t bytes) {
  check(bytes <= static_cast<size_t>(std::numeric_limits<int>::max()),
        "a host collective of {} bytes is larger than MPI can count", bytes);
  return static_cast<int>(bytes);
}

MPI_Comm duplicate(MPI_Comm group) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(group, &copy), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return copy;
}

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(MPI_Comm group) : device_(duplicate(group)), host_(duplicate(group)) {
    check_mpi(MPI_Comm_rank(host_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(host_, &size_), "MPI_Comm_size");
  }

  ~MpiCommunicator() override {
    MPI_Comm_free(&device_);
    MPI_Comm_free(&host_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce(Stream& stream, float* data, int64_t count, const std::string& name) override {
    stream.enqueue([group = device_, data, count, name] {
      for (int64_t done = 0; done < count; done += kMaxCount) {
        const auto piece = static_cast<int>(std::min(kMaxCount, count - done));
        check_mpi(MPI_Allreduce(MPI_IN_PLACE, data + done, piece, MPI_FLOAT, MPI_SUM, group),
                  fmt::format("all_reduce of {}", name));
      }
    });
  }

  void barrier() override { check_mpi(MPI_Barrier(host_), "barrier"); }

  std::string broadcast(const std::string& text) override {
    auto bytes = static_cast<uint64_t>(text.size());
    check_mpi(MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, host_), "broadcast");
    std::string received = rank_ == 0 ? text : std::string(bytes, '\0');
    check_mpi(MPI_Bcast(received.data(), to_count(bytes), MPI_CHAR, 0, host_), "broadcast");
    return received;
  }

  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    std::vector<std::byte> all(mine.size() * static_cast<size_t>(size_));
    const int bytes = to_count(mine.size());
    check_mpi(MPI_Allgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, host_),
              "all_gather");
    return all;
  }

  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) override {
    const int bytes = to_count(mine.size());
    std::vector<int> counts(static_cast<size_t>(size_));
    check_mpi(MPI_Gather(&bytes, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, host_), "gather");
    std::vector<int> starts(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), 0);
    std::vector<std::byte> all(rank_ == 0 ? static_cast<size_t>(starts.back() + counts.back()) : 0);
    check_mpi(MPI_Gatherv(mine.data(), bytes, MPI_BYTE, all.data(), counts.data(), starts.data(),
                          MPI_BYTE, 0, host_),
              "gather");
    std::vector<std::vector<std::byte>> parts;
    for (size_t r = 0; rank_ == 0 && r < counts.size(); ++r) {
      parts.emplace_back(all.begin() + starts[r], all.begin() + starts[r] + counts[r]);
    }
    return parts;
  }

 private:
  MPI_Comm device_;
  MPI_Comm host_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm group) {
  return std::make_unique<MpiCommunicator>(group);
}

}  // namespace hidup
