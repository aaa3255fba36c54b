#include "comm/mpi_communicator.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "comm/attendance.h"
#include "comm/counts.h"
#include "comm/mpi_check.h"
#include "comm/mpi_collectives.h"
#include "comm/mpi_peer_memory.h"
#include "comm/mpi_shared_memory.h"
#include "comm/patient_yield.h"
#include "comm/staging.h"
#include "core/check.h"

namespace hidup {
namespace {

int to_count(size_t bytes) {
  check(bytes <= static_cast<size_t>(std::numeric_limits<int>::max()),
        "a host collective of {} bytes is larger than MPI can count", bytes);
  return static_cast<int>(bytes);
}

int64_t sum_of(const std::vector<int64_t>& counts) {
  return starts_of(counts).back();
}

std::vector<int> int_starts_of(const std::vector<int>& counts) {
  std::vector<int> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), 0);
  return starts;
}

MPI_Comm duplicate(MPI_Comm group) {
  const PatientWait wait;
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(group, &copy), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return copy;
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm group, int64_t max_piece)
      : max_piece_(max_piece),
        device_(duplicate(group)),
        host_(duplicate(group)),
        attendance_(world_ranks(group)),
        collectives_(device_, max_piece) {
    check_mpi(MPI_Comm_rank(host_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(host_, &size_), "MPI_Comm_size");
  }

  ~MpiCommunicator() override {
    const PatientWait wait;
    MPI_Comm_free(&device_);
    MPI_Comm_free(&host_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool through_host() const override { return size_ > 1; }

  bool can_use(CollectiveAlgorithm algorithm) override { return collectives_.can_use(algorithm); }

  void all_reduce(Stream& stream, void* data, int64_t count, DType dtype,
                  CollectiveAlgorithm algorithm, const std::string& name) override {
    if (size_ == 1) {
      return;
    }
    pass_in_place(stream, data, count, dtype, true, true,
                  [this, count, dtype, algorithm, doing = "all_reduce of " + name](void* values) {
                    collectives_.all_reduce(values, count, dtype, algorithm, doing);
                  });
  }

  void all_gather(Stream& stream, const void* send, void* receive,
                  const std::vector<int64_t>& counts, DType dtype, CollectiveAlgorithm algorithm,
                  const std::string& name) override {
    const std::string doing = "all_gather of " + name;
    check_counts(counts, size_, doing);
    if (size_ == 1) {
      copy_elements(stream, receive, send, counts[0], dtype);
      return;
    }
    pass_through_host(stream, send, counts[static_cast<size_t>(rank_)], receive, sum_of(counts),
                      dtype, [this, counts, dtype, algorithm, doing](const void* mine, void* all) {
                        collectives_.all_gather(mine, all, counts, dtype, algorithm, doing);
                      });
  }

  void reduce_scatter(Stream& stream, const void* send, void* receive,
                      const std::vector<int64_t>& counts, DType dtype,
                      CollectiveAlgorithm algorithm, const std::string& name) override {
    const std::string doing = "reduce_scatter of " + name;
    check_counts(counts, size_, doing);
    if (size_ == 1) {
      copy_elements(stream, receive, send, counts[0], dtype);
      return;
    }
    pass_through_host(stream, send, sum_of(counts), receive, counts[static_cast<size_t>(rank_)],
                      dtype, [this, counts, dtype, algorithm, doing](const void* all, void* mine) {
                        collectives_.reduce_scatter(all, mine, counts, dtype, algorithm, doing);
                      });
  }

  void all_to_all(Stream& stream, const void* send, const std::vector<int64_t>& send_counts,
                  void* receive, const std::vector<int64_t>& receive_counts, DType dtype,
                  CollectiveAlgorithm algorithm, const std::string& name) override {
    const std::string doing = "all_to_all of " + name;
    check_counts(send_counts, size_, doing);
    check_counts(receive_counts, size_, doing);
    const auto self = static_cast<size_t>(rank_);
    check(send_counts[self] == receive_counts[self], "{}: a rank's own counts differ", doing);
    if (size_ == 1) {
      copy_elements(stream, receive, send, send_counts[0], dtype);
      return;
    }
    pass_through_host(stream, send, sum_of(send_counts), receive, sum_of(receive_counts), dtype,
                      [this, send_counts, receive_counts, dtype, algorithm, doing](
                          const void* outgoing, void* incoming) {
                        collectives_.all_to_all(outgoing, send_counts, incoming, receive_counts,
                                                dtype, algorithm, doing);
                      });
  }

  void broadcast(Stream& stream, void* data, int64_t count, int root, DType dtype,
                 const std::string& name) override {
    if (size_ == 1) {
      return;
    }
    pass_in_place(stream, data, count, dtype, rank_ == root, rank_ != root,
                  [this, count, root, dtype, doing = "broadcast of " + name](void* values) {
                    collectives_.broadcast(values, count, root, dtype, doing);
                  });
  }

  void move(Stream& stream, const void* send, void* receive, int64_t count,
            const std::vector<int>& sources, DType dtype, const std::string& name) override {
    const std::string doing = "move of " + name;
    const MovePart part = move_part(sources, rank_, size_, doing);
    pass_through_host(stream, send, part.sends_to.empty() ? 0 : count, receive,
                      part.receives ? count : 0, dtype,
                      [this, count, sources, dtype, doing](const void* outgoing, void* incoming) {
                        collectives_.move(outgoing, incoming, count, sources, dtype, doing);
                      });
  }

  std::shared_ptr<void> register_memory(Buffer& memory) override {
    const int is_file = memory.file() >= 0 ? 1 : 0;
    if (std::ranges::min(all_gather_value(*this, is_file)) == 0 ||
        !can_use(CollectiveAlgorithm::windows)) {
      return nullptr;
    }
    return collectives_.use_in_place(PeerMemory::map(*this, memory));
  }

  void barrier() override {
    const Attendance::Visit visit(attendance_, "barrier");
    check_mpi(MPI_Barrier(host_), "barrier");
  }

  std::string broadcast(const std::string& text) override {
    const Attendance::Visit visit(attendance_, "broadcast");
    auto bytes = static_cast<uint64_t>(text.size());
    check_mpi(MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, host_), "broadcast");
    std::string received = rank_ == 0 ? text : std::string(bytes, '\0');
    check_mpi(MPI_Bcast(received.data(), to_count(bytes), MPI_CHAR, 0, host_), "broadcast");
    return received;
  }

  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    const Attendance::Visit visit(attendance_, "all_gather");
    std::vector<std::byte> all(mine.size() * static_cast<size_t>(size_));
    const int bytes = to_count(mine.size());
    check_mpi(MPI_Allgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, host_),
              "all_gather");
    return all;
  }

  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) override {
    const Attendance::Visit visit(attendance_, "gather");
    const int bytes = to_count(mine.size());
    std::vector<int> counts(static_cast<size_t>(size_));
    check_mpi(MPI_Gather(&bytes, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, host_), "gather");
    const std::vector<int> starts = int_starts_of(counts);
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

  void exchange(std::span<const std::byte> send, const std::vector<int64_t>& send_counts,
                std::span<std::byte> receive, const std::vector<int64_t>& receive_counts) override {
    const Attendance::Visit visit(attendance_, "exchange");
    check_counts(send_counts, size_, "exchange");
    check_counts(receive_counts, size_, "exchange");
    to_count(send.size());
    to_count(receive.size());
    const std::vector<int> outgoing(send_counts.begin(), send_counts.end());
    const std::vector<int> incoming(receive_counts.begin(), receive_counts.end());
    check_mpi(MPI_Alltoallv(send.data(), outgoing.data(), int_starts_of(outgoing).data(), MPI_BYTE,
                            receive.data(), incoming.data(), int_starts_of(incoming).data(),
                            MPI_BYTE, host_),
              "exchange");
  }

  std::unique_ptr<Communicator> split(int64_t color) override {
    // Numbers the colors in order, because MPI takes only ints that are not negative.
    const std::vector<int64_t> given = all_gather_value(*this, color);
    const Attendance::Visit visit(attendance_, "split");
    const auto number =
        std::count_if(given.begin(), given.end(), [color](int64_t other) { return other < color; });
    MPI_Comm part = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(host_, static_cast<int>(number), rank_, &part), "split");
    auto group = std::make_unique<MpiCommunicator>(part, max_piece_);
    check_mpi(MPI_Comm_free(&part), "split");
    return group;
  }

  std::shared_ptr<std::byte> share_memory(int64_t bytes) override {
    return share_host_memory(host_, bytes);
  }

 private:
  int64_t max_piece_;
  MPI_Comm device_;
  MPI_Comm host_;
  Attendance attendance_;  // in host collectives
  MpiCollectives collectives_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm group, int64_t max_piece) {
  return std::make_unique<MpiCommunicator>(group, max_piece);
}

}  // namespace hidup
