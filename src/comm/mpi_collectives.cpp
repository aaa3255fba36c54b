#include "comm/mpi_collectives.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "comm/counts.h"
#include "comm/mpi_algorithms.h"
#include "comm/mpi_check.h"
#include "comm/mpi_shared_memory.h"
#include "comm/patient_yield.h"
#include "comm/rank_numbers.h"
#include "core/check.h"
#include "core/half.h"

namespace hidup {
namespace {

// Count from which the ring is faster than MPI's own all_reduce.
constexpr int64_t kRingAllReduce = int64_t{1} << 16;
// Sum of counts up to which MPI's reduce_scatter, with log(ranks) steps, is as fast as the ring.
constexpr int64_t kSmall = int64_t{1} << 14;

// Adds elements, as MPI's reduction operations need it.
template <typename T>
void add_elements(void* added, void* sums, int* count, MPI_Datatype*) {
  const T* const from = static_cast<const T*>(added);
  T* const to = static_cast<T*>(sums);
  for (int i = 0; i < *count; ++i) {
    to[i] = to[i] + from[i];
  }
}

// The algorithms of a collective: those made of messages, and those in windows.
template <size_t kCount, typename... Arguments>
struct Algorithms {
  struct OfMessages {
    CollectiveAlgorithm name;
    void (*run)(MpiMessages& messages, Arguments... arguments);
  };
  std::array<OfMessages, kCount> of_messages;
  void (MpiWindows::*in_windows)(Arguments... arguments);
};

using Counts = const std::vector<int64_t>&;
using Text = const std::string&;

constexpr Algorithms<3, void*, int64_t, const Elements&, Text> kAllReduce = {
    {{{CollectiveAlgorithm::ring, ring_all_reduce},
      {CollectiveAlgorithm::halving, halving_all_reduce},
      {CollectiveAlgorithm::tree, tree_all_reduce}}},
    &MpiWindows::all_reduce};
constexpr Algorithms<2, const void*, void*, Counts, int64_t, Text> kAllGather = {
    {{{CollectiveAlgorithm::ring, ring_all_gather},
      {CollectiveAlgorithm::halving, halving_all_gather}}},
    &MpiWindows::all_gather};
constexpr Algorithms<2, const void*, void*, Counts, const Elements&, Text> kReduceScatter = {
    {{{CollectiveAlgorithm::ring, ring_reduce_scatter},
      {CollectiveAlgorithm::halving, halving_reduce_scatter}}},
    &MpiWindows::reduce_scatter};
constexpr Algorithms<2, const void*, Counts, void*, Counts, int64_t, Text> kAllToAll = {
    {{{CollectiveAlgorithm::pairwise, pairwise_all_to_all},
      {CollectiveAlgorithm::bruck, bruck_all_to_all}}},
    &MpiWindows::all_to_all};

// Returns the elements of [0, count) in the piece that starts at `done`; 0 past the end.
int piece(int64_t count, int64_t done, int64_t max_piece) {
  return static_cast<int>(std::clamp<int64_t>(count - done, 0, max_piece));
}

// Concurrent messages of elements of `bytes` bytes, cut in pieces.
class Requests {
 public:
  Requests(MPI_Comm group, int64_t max_piece, int64_t bytes, const std::string& doing)
      : group_(group), max_piece_(max_piece), bytes_(bytes), doing_(doing) {}

  void receive(void* data, int64_t count, int from) {
    for (int64_t done = 0; done < count; done += max_piece_) {
      check_mpi(MPI_Irecv(at(data, done, bytes_), piece(count, done, max_piece_),
                          moved_type(bytes_), from, 0, group_, next()),
                doing_);
    }
  }
  void send(const void* data, int64_t count, int to) {
    for (int64_t done = 0; done < count; done += max_piece_) {
      check_mpi(MPI_Isend(at(data, done, bytes_), piece(count, done, max_piece_),
                          moved_type(bytes_), to, 0, group_, next()),
                doing_);
    }
  }
  void wait() {
    check_mpi(
        MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE),
        doing_);
  }

 private:
  MPI_Request* next() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  MPI_Comm group_;
  int64_t max_piece_;
  int64_t bytes_;
  const std::string& doing_;
  std::vector<MPI_Request> requests_;
};

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
  std::ranges::transform(there, there.begin(), number_of_rank);
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

template <typename Table, typename... Arguments>
bool MpiCollectives::run(const Table& table, CollectiveAlgorithm algorithm,
                         const Arguments&... arguments) {
  const auto found = std::ranges::find(table.of_messages, algorithm, &Table::OfMessages::name);
  if (found != table.of_messages.end()) {
    found->run(messages_, arguments...);
    return true;
  }
  if (algorithm == CollectiveAlgorithm::windows && windows() != nullptr) {
    (windows()->*table.in_windows)(arguments...);
    return true;
  }
  return false;
}

void MpiCollectives::all_reduce(void* data, int64_t count, DType dtype,
                                CollectiveAlgorithm algorithm, const std::string& doing) {
  const Attendance::Visit visit(attendance_, doing);
  if (!run(kAllReduce, algorithm, data, count, summed_elements(dtype), doing)) {
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
  if (!run(kAllGather, algorithm, send, receive, counts, bytes, doing)) {
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
  if (!run(kReduceScatter, algorithm, send, receive, counts, summed_elements(dtype), doing)) {
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
    // The result may overlap `send` on this rank alone, and MPI's in-place mode needs all ranks.
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
  if (!run(kAllToAll, algorithm, send, send_counts, receive, receive_counts, bytes, doing)) {
    all_to_all_as_best(send, send_counts, receive, receive_counts, bytes, doing);
  }
}

// Starts all messages at once, as Open MPI does for as many ranks as a node has, so that uneven
// pieces do not wait for each other.
void MpiCollectives::all_to_all_as_best(const void* send, const std::vector<int64_t>& send_counts,
                                        void* receive, const std::vector<int64_t>& receive_counts,
                                        int64_t bytes, const std::string& doing) {
  const std::vector<int64_t> send_starts = starts_of(send_counts);
  const std::vector<int64_t> receive_starts = starts_of(receive_counts);
  Requests requests(group_, max_piece_, bytes, doing);
  for (int step = 1; step < size_; ++step) {
    const int from = (rank_ - step + size_) % size_;
    const auto peer = static_cast<size_t>(from);
    requests.receive(at(receive, receive_starts[peer], bytes), receive_counts[peer], from);
  }
  for (int step = 1; step < size_; ++step) {
    const int to = (rank_ + step) % size_;
    const auto peer = static_cast<size_t>(to);
    requests.send(at(send, send_starts[peer], bytes), send_counts[peer], to);
  }
  const auto self = static_cast<size_t>(rank_);
  copy_now(at(receive, receive_starts[self], bytes), at(send, send_starts[self], bytes),
           send_counts[self], bytes);
  requests.wait();
}

void MpiCollectives::move(const void* send, void* receive, int64_t count,
                          const std::vector<int>& sources, DType dtype, const std::string& doing) {
  const Attendance::Visit visit(attendance_, doing);
  const PatientWait wait(true);
  const int64_t bytes = size_of(dtype);
  const MovePart part = move_part(sources, rank_, size_, doing);
  Requests requests(group_, max_piece_, bytes, doing);
  if (part.receives) {
    requests.receive(receive, count, sources[static_cast<size_t>(rank_)]);
  }
  for (const int to : part.sends_to) {
    requests.send(send, count, to);
  }
  requests.wait();
}

}  // namespace hidup
