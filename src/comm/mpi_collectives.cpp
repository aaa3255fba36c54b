#include "comm/mpi_collectives.h"

#include <algorithm>
#include <numeric>

#include "comm/counts.h"
#include "comm/mpi_algorithms.h"
#include "comm/mpi_check.h"
#include "comm/mpi_shared_memory.h"
#include "core/check.h"
#include "core/half.h"

namespace hidup {
namespace {

// From this count on the ring beats MPI's own all_reduce.
constexpr int64_t kRingAllReduce = int64_t{1} << 16;
// Up to this sum of counts MPI's own reduce_scatter is as fast, and needs only
// log(ranks) steps where the ring needs one per rank.
constexpr int64_t kSmall = int64_t{1} << 14;

// For MPI: adds to what is there.
template <typename T>
void add_elements(void* added, void* sums, int* count, MPI_Datatype*) {
  const T* const from = static_cast<const T*>(added);
  T* const to = static_cast<T*>(sums);
  for (int i = 0; i < *count; ++i) {
    to[i] = to[i] + from[i];
  }
}

// Elements of [0, count) in the piece that starts at `done`; none past the end.
int piece(int64_t count, int64_t done, int64_t max_piece) {
  return static_cast<int>(std::clamp<int64_t>(count - done, 0, max_piece));
}

std::vector<int> to_ints(const std::vector<int64_t>& values) {
  std::vector<int> ints(values.size());
  std::transform(values.begin(), values.end(), ints.begin(),
                 [](int64_t value) { return static_cast<int>(value); });
  return ints;
}

}  // namespace

std::vector<int> world_ranks(MPI_Comm group) {
  int size = 0;
  check_mpi(MPI_Comm_size(group, &size), "MPI_Comm_size");
  std::vector<int> here(static_cast<size_t>(size));
  std::iota(here.begin(), here.end(), 0);
  std::vector<int> there(here.size());
  MPI_Group of_group = MPI_GROUP_NULL;
  MPI_Group of_world = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(group, &of_group), "MPI_Comm_group");
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &of_world), "MPI_Comm_group");
  check_mpi(MPI_Group_translate_ranks(of_group, size, here.data(), of_world, there.data()),
            "MPI_Group_translate_ranks");
  check_mpi(MPI_Group_free(&of_group), "MPI_Group_free");
  check_mpi(MPI_Group_free(&of_world), "MPI_Group_free");
  return there;
}

MpiCollectives::MpiCollectives(MPI_Comm group, int64_t max_piece)
    : group_(group),
      attendance_(world_ranks(group)),
      max_piece_(max_piece),
      messages_(group, max_piece) {
  check_mpi(MPI_Comm_rank(group_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(group_, &size_), "MPI_Comm_size");
  check_mpi(MPI_Op_create(add_elements<BFloat16>, 1, &sum_bf16_), "MPI_Op_create");
  check_mpi(MPI_Op_create(add_elements<Float16>, 1, &sum_f16_), "MPI_Op_create");
}

MpiCollectives::~MpiCollectives() {
  MPI_Op_free(&sum_bf16_);
  MPI_Op_free(&sum_f16_);
}

MPI_Datatype MpiCollectives::type_of(DType dtype) const {
  return dtype == DType::f32 ? MPI_FLOAT : MPI_UINT16_T;
}

MPI_Op MpiCollectives::sum_op(DType dtype) const {
  return dtype == DType::f32 ? MPI_SUM : dtype == DType::bf16 ? sum_bf16_ : sum_f16_;
}

MpiWindows* MpiCollectives::windows() {
  if (!one_host_.has_value()) {
    one_host_ = on_one_host(group_);
    if (*one_host_) {
      windows_.emplace(group_, max_piece_);
    }
  }
  return windows_.has_value() ? &*windows_ : nullptr;
}

bool MpiCollectives::can_use(CollectiveAlgorithm algorithm) {
  return algorithm == CollectiveAlgorithm::automatic ||
         (size_ > 1 && (algorithm != CollectiveAlgorithm::windows || windows() != nullptr));
}

std::shared_ptr<void> MpiCollectives::use_in_place(const std::shared_ptr<PeerMemory>& memory) {
  if (memory == nullptr) {
    return nullptr;
  }
  windows()->add(*memory);
  return {memory.get(), [this, memory](void*) { windows_->remove(*memory); }};
}

void MpiCollectives::all_reduce(void* data, int64_t count, DType dtype,
                                CollectiveAlgorithm algorithm, const std::string& doing) {
  const Attendance::Visit visit(attendance_, doing);
  const Elements elements = summed_elements(dtype);
  if (algorithm == CollectiveAlgorithm::ring) {
    ring_all_reduce(messages_, data, count, elements, doing);
  } else if (algorithm == CollectiveAlgorithm::halving) {
    halving_all_reduce(messages_, data, count, elements, doing);
  } else if (algorithm == CollectiveAlgorithm::tree) {
    tree_all_reduce(messages_, data, count, elements, doing);
  } else if (algorithm == CollectiveAlgorithm::windows && windows() != nullptr) {
    windows()->all_reduce(data, count, elements, doing);
  } else {
    all_reduce_as_best(data, count, dtype, doing);
  }
}

void MpiCollectives::all_reduce_as_best(void* data, int64_t count, DType dtype,
                                        const std::string& doing) {
  const Elements elements = summed_elements(dtype);
  if (count > std::min(kRingAllReduce, max_piece_)) {
    ring_all_reduce(messages_, data, count, elements, doing);
    return;
  }
  for (int64_t done = 0; done < count; done += max_piece_) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, at(data, done, elements.bytes),
                            piece(count, done, max_piece_), type_of(dtype), sum_op(dtype), group_),
              doing);
  }
}

void MpiCollectives::broadcast(void* data, int64_t count, int root, DType dtype,
                               const std::string& doing) {
  const Attendance::Visit visit(attendance_, doing);
  const int64_t bytes = size_of(dtype);
  for (int64_t done = 0; done < count; done += max_piece_) {
    check_mpi(MPI_Bcast(at(data, done, bytes), piece(count, done, max_piece_), moved_type(bytes),
                        root, group_),
              doing);
  }
}

void MpiCollectives::all_gather(const void* send, void* receive, const std::vector<int64_t>& counts,
                                DType dtype, CollectiveAlgorithm algorithm,
                                const std::string& doing) {
  const Attendance::Visit visit(attendance_, doing);
  const int64_t bytes = size_of(dtype);
  if (algorithm == CollectiveAlgorithm::ring) {
    ring_all_gather(messages_, send, receive, counts, bytes, doing);
  } else if (algorithm == CollectiveAlgorithm::halving) {
    halving_all_gather(messages_, send, receive, counts, bytes, doing);
  } else if (algorithm == CollectiveAlgorithm::windows && windows() != nullptr) {
    windows()->all_gather(send, receive, counts, bytes, doing);
  } else {
    all_gather_as_best(send, receive, counts, bytes, doing);
  }
}

void MpiCollectives::all_gather_as_best(const void* send, void* receive,
                                        const std::vector<int64_t>& counts, int64_t bytes,
                                        const std::string& doing) {
  const std::vector<int64_t> starts = starts_of(counts);
  if (starts.back() > max_piece_) {
    ring_all_gather(messages_, send, receive, counts, bytes, doing);
  } else if (starts.back() > 0) {
    const std::vector<int> int_counts = to_ints(counts);
    const std::vector<int> int_starts = to_ints(starts);
    const auto self = static_cast<size_t>(rank_);
    const bool in_place = counts[self] > 0 && send == at(receive, starts[self], bytes);
    check_mpi(MPI_Allgatherv(in_place ? MPI_IN_PLACE : send, int_counts[static_cast<size_t>(rank_)],
                             moved_type(bytes), receive, int_counts.data(), int_starts.data(),
                             moved_type(bytes), group_),
              doing);
  }
}

void MpiCollectives::reduce_scatter(const void* send, void* receive,
                                    const std::vector<int64_t>& counts, DType dtype,
                                    CollectiveAlgorithm algorithm, const std::string& doing) {
  const Attendance::Visit visit(attendance_, doing);
  const Elements elements = summed_elements(dtype);
  if (algorithm == CollectiveAlgorithm::ring) {
    ring_reduce_scatter(messages_, send, receive, counts, elements, doing);
  } else if (algorithm == CollectiveAlgorithm::halving) {
    halving_reduce_scatter(messages_, send, receive, counts, elements, doing);
  } else if (algorithm == CollectiveAlgorithm::windows && windows() != nullptr) {
    windows()->reduce_scatter(send, receive, counts, elements, doing);
  } else {
    reduce_scatter_as_best(send, receive, counts, dtype, doing);
  }
}

void MpiCollectives::reduce_scatter_as_best(const void* send, void* receive,
                                            const std::vector<int64_t>& counts, DType dtype,
                                            const std::string& doing) {
  const std::vector<int64_t> starts = starts_of(counts);
  const int64_t sum = starts.back();
  const auto longest = std::max_element(counts.begin(), counts.end());
  if (sum == 0) {
    return;
  }
  if (*longest == sum) {
    reduce_to(static_cast<int>(longest - counts.begin()), send, receive, sum, dtype, doing);
  } else if (sum <= std::min(kSmall, max_piece_)) {
    // The result may lie in what is sent: on this rank alone, so that it says nothing to MPI.
    const auto self = static_cast<size_t>(rank_);
    const int64_t bytes = size_of(dtype);
    const bool in_place = receive == at(send, starts[self], bytes);
    std::vector<std::byte> apart(static_cast<size_t>(in_place ? counts[self] * bytes : 0));
    void* const result = in_place ? apart.data() : receive;
    const std::vector<int> int_counts = to_ints(counts);
    check_mpi(
        MPI_Reduce_scatter(send, result, int_counts.data(), type_of(dtype), sum_op(dtype), group_),
        doing);
    copy_now(receive, result, counts[self], bytes);
  } else {
    ring_reduce_scatter(messages_, send, receive, counts, summed_elements(dtype), doing);
  }
}

void MpiCollectives::reduce_to(int root, const void* send, void* receive, int64_t count,
                               DType dtype, const std::string& doing) {
  const int64_t bytes = size_of(dtype);
  for (int64_t done = 0; done < count; done += max_piece_) {
    const void* const from = at(send, done, bytes);
    void* const to = rank_ == root ? at(receive, done, bytes) : nullptr;
    check_mpi(MPI_Reduce(from == to ? MPI_IN_PLACE : from, to, piece(count, done, max_piece_),
                         type_of(dtype), sum_op(dtype), root, group_),
              doing);
  }
}

void MpiCollectives::all_to_all(const void* send, const std::vector<int64_t>& send_counts,
                                void* receive, const std::vector<int64_t>& receive_counts,
                                DType dtype, CollectiveAlgorithm algorithm,
                                const std::string& doing) {
  const Attendance::Visit visit(attendance_, doing);
  const int64_t bytes = size_of(dtype);
  if (algorithm == CollectiveAlgorithm::pairwise) {
    pairwise_all_to_all(messages_, send, send_counts, receive, receive_counts, bytes, doing);
  } else if (algorithm == CollectiveAlgorithm::bruck) {
    bruck_all_to_all(messages_, send, send_counts, receive, receive_counts, bytes, doing);
  } else if (algorithm == CollectiveAlgorithm::windows && windows() != nullptr) {
    windows()->all_to_all(send, send_counts, receive, receive_counts, bytes, doing);
  } else {
    all_to_all_as_best(send, send_counts, receive, receive_counts, bytes, doing);
  }
}

// All messages at once, as Open MPI does for as many ranks as a node has: uneven
// pieces do not wait for each other.
void MpiCollectives::all_to_all_as_best(const void* send, const std::vector<int64_t>& send_counts,
                                        void* receive, const std::vector<int64_t>& receive_counts,
                                        int64_t bytes, const std::string& doing) {
  const std::vector<int64_t> send_starts = starts_of(send_counts);
  const std::vector<int64_t> receive_starts = starts_of(receive_counts);
  std::vector<MPI_Request> requests;
  for (int step = 1; step < size_; ++step) {
    const int from = (rank_ - step + size_) % size_;
    const auto peer = static_cast<size_t>(from);
    for (int64_t done = 0; done < receive_counts[peer]; done += max_piece_) {
      check_mpi(MPI_Irecv(at(receive, receive_starts[peer] + done, bytes),
                          piece(receive_counts[peer], done, max_piece_), moved_type(bytes), from, 0,
                          group_, &requests.emplace_back(MPI_REQUEST_NULL)),
                doing);
    }
  }
  for (int step = 1; step < size_; ++step) {
    const int to = (rank_ + step) % size_;
    const auto peer = static_cast<size_t>(to);
    for (int64_t done = 0; done < send_counts[peer]; done += max_piece_) {
      check_mpi(MPI_Isend(at(send, send_starts[peer] + done, bytes),
                          piece(send_counts[peer], done, max_piece_), moved_type(bytes), to, 0,
                          group_, &requests.emplace_back(MPI_REQUEST_NULL)),
                doing);
    }
  }
  const auto self = static_cast<size_t>(rank_);
  copy_now(at(receive, receive_starts[self], bytes), at(send, send_starts[self], bytes),
           send_counts[self], bytes);
  check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
            doing);
}

void MpiCollectives::move(const void* send, void* receive, int64_t count,
                          const std::vector<int>& sources, DType dtype, const std::string& doing) {
  const Attendance::Visit visit(attendance_, doing);
  const int64_t bytes = size_of(dtype);
  const MovePart part = move_part(sources, rank_, size_, doing);
  std::vector<MPI_Request> requests;
  for (int64_t done = 0; done < count; done += max_piece_) {
    const int elements = piece(count, done, max_piece_);
    if (part.receives) {
      check_mpi(MPI_Irecv(at(receive, done, bytes), elements, moved_type(bytes),
                          sources[static_cast<size_t>(rank_)], 0, group_,
                          &requests.emplace_back(MPI_REQUEST_NULL)),
                doing);
    }
    for (const int to : part.sends_to) {
      check_mpi(MPI_Isend(at(send, done, bytes), elements, moved_type(bytes), to, 0, group_,
                          &requests.emplace_back(MPI_REQUEST_NULL)),
                doing);
    }
  }
  check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
            doing);
}

}  // namespace hidup
