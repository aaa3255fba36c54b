#include "comm/mpi_collectives.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "comm/counts.h"
#include "comm/mpi_check.h"
#include "comm/patient_yield.h"
#include "core/half.h"
#include "core/with_type.h"

namespace hidup {
namespace {

constexpr int64_t kRingChunk = int64_t{1} << 18;  // elements: 1 MiB stays in a core's cache
// From this count on the ring beats MPI's own all_reduce.
constexpr int64_t kRingAllReduce = int64_t{1} << 16;
// Up to this sum of counts MPI's own reduce_scatter is as fast, and needs only
// log(ranks) steps where the ring needs one per rank.
constexpr int64_t kSmall = int64_t{1} << 14;

// The tag of chunks that are sent ahead; other messages have 0.
constexpr int kChunks = 1;

// Elements that are only moved, whatever they mean.
MPI_Datatype moved(int64_t bytes) {
  return bytes == 2 ? MPI_UINT16_T : MPI_UINT32_T;
}

// Element i of elements with that many bytes.
std::byte* at(void* data, int64_t i, int64_t bytes) {
  return static_cast<std::byte*>(data) + i * bytes;
}

const std::byte* at(const void* data, int64_t i, int64_t bytes) {
  return static_cast<const std::byte*>(data) + i * bytes;
}

void copy_now(void* to, const void* from, int64_t count, int64_t bytes) {
  if (count > 0) {
    std::memcpy(to, from, static_cast<size_t>(count * bytes));
  }
}

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

MpiCollectives::MpiCollectives(MPI_Comm group, int64_t max_piece)
    : group_(group),
      max_piece_(max_piece),
      chunk_(std::min(kRingChunk, max_piece)),
      partial_(std::make_unique_for_overwrite<std::byte[]>(4 * static_cast<size_t>(chunk_) *
                                                           sizeof(float))) {
  check_mpi(MPI_Comm_rank(group_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(group_, &size_), "MPI_Comm_size");
  check_mpi(MPI_Op_create(add_elements<BFloat16>, 1, &sum_bf16_), "MPI_Op_create");
  check_mpi(MPI_Op_create(add_elements<Float16>, 1, &sum_f16_), "MPI_Op_create");
}

MpiCollectives::~MpiCollectives() {
  MPI_Op_free(&sum_bf16_);
  MPI_Op_free(&sum_f16_);
}

template <typename T>
MPI_Datatype MpiCollectives::type_of() const {
  return std::is_same_v<T, float> ? MPI_FLOAT : MPI_UINT16_T;
}

template <typename T>
MPI_Op MpiCollectives::sum_op() const {
  return std::is_same_v<T, float> ? MPI_SUM : std::is_same_v<T, BFloat16> ? sum_bf16_ : sum_f16_;
}

void MpiCollectives::all_reduce(void* data, int64_t count, DType dtype, const std::string& doing) {
  const PatientWait wait;
  with_floating_type(
      dtype, [&](auto zero) { all_reduce_of(static_cast<decltype(zero)*>(data), count, doing); });
}

template <typename T>
void MpiCollectives::all_reduce_of(T* data, int64_t count, const std::string& doing) {
  if (count > std::min(kRingAllReduce, max_piece_)) {
    all_reduce_ring(data, count, doing);
    return;
  }
  for (int64_t done = 0; done < count; done += max_piece_) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, data + done, piece(count, done, max_piece_), type_of<T>(),
                            sum_op<T>(), group_),
              doing);
  }
}

// Blocks go round the ring twice: to be summed up, block b from rank b + 1 to rank b, and to be
// spread from there.
template <typename T>
void MpiCollectives::all_reduce_ring(T* data, int64_t count, const std::string& doing) {
  std::vector<int64_t> starts;
  for (int64_t b = 0; b <= size_; ++b) {
    starts.push_back(count * b / size_);
  }
  const auto block_at = [&](int step) {
    return static_cast<size_t>((rank_ - step + size_) % size_);
  };
  const auto length = [&](size_t block) { return starts[block + 1] - starts[block]; };
  for (int step = 1; step < size_; ++step) {
    const size_t out = block_at(step);
    const size_t in = block_at(step + 1);
    pass_and_add(data + starts[out], length(out), data + starts[in], length(in), doing);
  }
  for (int step = 0; step < size_ - 1; ++step) {
    const size_t out = block_at(step);
    const size_t in = block_at(step + 1);
    pass_on(data + starts[out], length(out), data + starts[in], length(in), sizeof(T), doing);
  }
}

// All that goes out is on its way at once; what comes in is added while the next chunk comes.
template <typename T>
void MpiCollectives::pass_and_add(const T* send, int64_t send_count, T* sum, int64_t sum_count,
                                  const std::string& doing) {
  std::vector<MPI_Request> sends = send_chunks(send, send_count, doing);
  receive_chunks<T>(sum_count, doing, [&](int64_t done, const T* part, int count) {
    for (int i = 0; i < count; ++i) {
      sum[done + i] = sum[done + i] + part[i];
    }
  });
  check_mpi(MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE), doing);
}

template <typename T>
std::vector<MPI_Request> MpiCollectives::send_chunks(const T* data, int64_t count,
                                                     const std::string& doing) {
  std::vector<MPI_Request> sends;
  for (int64_t done = 0; done < count; done += chunk_) {
    check_mpi(MPI_Isend(data + done, piece(count, done, chunk_), type_of<T>(), right(), kChunks,
                        group_, &sends.emplace_back(MPI_REQUEST_NULL)),
              doing);
  }
  return sends;
}

template <typename T>
void MpiCollectives::receive_chunks(int64_t count, const std::string& doing,
                                    const TakeChunk<T>& take) {
  MPI_Request receives[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  const auto receive = [&](int64_t chunk) {
    if (chunk * chunk_ < count) {
      check_mpi(MPI_Irecv(partial<T>() + (chunk % 2) * chunk_, piece(count, chunk * chunk_, chunk_),
                          type_of<T>(), left(), kChunks, group_, &receives[chunk % 2]),
                doing);
    }
  };
  receive(0);
  for (int64_t chunk = 0; chunk * chunk_ < count; ++chunk) {
    receive(chunk + 1);
    check_mpi(MPI_Wait(&receives[chunk % 2], MPI_STATUS_IGNORE), doing);
    take(chunk * chunk_, partial<T>() + (chunk % 2) * chunk_, piece(count, chunk * chunk_, chunk_));
  }
}

void MpiCollectives::broadcast(void* data, int64_t count, int root, DType dtype,
                               const std::string& doing) {
  const PatientWait wait;
  const int64_t bytes = size_of(dtype);
  for (int64_t done = 0; done < count; done += max_piece_) {
    check_mpi(MPI_Bcast(at(data, done, bytes), piece(count, done, max_piece_), moved(bytes), root,
                        group_),
              doing);
  }
}

void MpiCollectives::all_gather(const void* send, void* receive, const std::vector<int64_t>& counts,
                                DType dtype, const std::string& doing) {
  const PatientWait wait;
  const int64_t bytes = size_of(dtype);
  const std::vector<int64_t> starts = starts_of(counts);
  if (starts.back() > max_piece_) {
    all_gather_ring(send, receive, counts, bytes, doing);
  } else if (starts.back() > 0) {
    const std::vector<int> int_counts = to_ints(counts);
    const std::vector<int> int_starts = to_ints(starts);
    check_mpi(MPI_Allgatherv(send, int_counts[static_cast<size_t>(rank_)], moved(bytes), receive,
                             int_counts.data(), int_starts.data(), moved(bytes), group_),
              doing);
  }
}

void MpiCollectives::all_gather_ring(const void* send, void* receive,
                                     const std::vector<int64_t>& counts, int64_t bytes,
                                     const std::string& doing) {
  const std::vector<int64_t> starts = starts_of(counts);
  auto block = static_cast<size_t>(rank_);  // the one passed on
  copy_now(at(receive, starts[block], bytes), send, counts[block], bytes);
  for (int step = 1; step < size_; ++step) {
    const size_t next = static_cast<size_t>((rank_ - step + size_) % size_);
    pass_on(at(receive, starts[block], bytes), counts[block], at(receive, starts[next], bytes),
            counts[next], bytes, doing);
    block = next;
  }
}

void MpiCollectives::reduce_scatter(const void* send, void* receive,
                                    const std::vector<int64_t>& counts, DType dtype,
                                    const std::string& doing) {
  const PatientWait wait;
  with_floating_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    reduce_scatter_of(static_cast<const T*>(send), static_cast<T*>(receive), counts, doing);
  });
}

template <typename T>
void MpiCollectives::reduce_scatter_of(const T* send, T* receive,
                                       const std::vector<int64_t>& counts,
                                       const std::string& doing) {
  const int64_t sum = starts_of(counts).back();
  const auto longest = std::max_element(counts.begin(), counts.end());
  if (sum == 0) {
    return;
  }
  if (*longest == sum) {
    reduce_to(static_cast<int>(longest - counts.begin()), send, receive, sum, doing);
  } else if (sum <= std::min(kSmall, max_piece_)) {
    const std::vector<int> int_counts = to_ints(counts);
    check_mpi(
        MPI_Reduce_scatter(send, receive, int_counts.data(), type_of<T>(), sum_op<T>(), group_),
        doing);
  } else {
    reduce_scatter_ring(send, receive, counts, doing);
  }
}

template <typename T>
void MpiCollectives::reduce_to(int root, const T* send, T* receive, int64_t count,
                               const std::string& doing) {
  for (int64_t done = 0; done < count; done += max_piece_) {
    T* const to = rank_ == root ? receive + done : nullptr;
    check_mpi(MPI_Reduce(send + done, to, piece(count, done, max_piece_), type_of<T>(), sum_op<T>(),
                         root, group_),
              doing);
  }
}

// Block b starts at rank b + 1 and goes round to rank b; every rank on the way adds its own part.
// So the order of the sum is fixed. The first message of every chunk is on its way at once.
template <typename T>
void MpiCollectives::reduce_scatter_ring(const T* send, T* receive,
                                         const std::vector<int64_t>& counts,
                                         const std::string& doing) {
  const std::vector<int64_t> starts = starts_of(counts);
  const auto block_at = [&](int step) {
    return static_cast<size_t>((rank_ - 1 - step + 2 * size_) % size_);
  };
  const int64_t longest = *std::max_element(counts.begin(), counts.end());
  const auto add_own = [&](int step, int64_t done, const T* part, T* sum) {
    const T* const own = send + starts[block_at(step)] + done;
    for (int i = 0; i < piece(counts[block_at(step)], done, chunk_); ++i) {
      sum[i] = part[i] + own[i];
    }
  };
  std::vector<MPI_Request> sends =
      send_chunks(send + starts[block_at(0)], counts[block_at(0)], doing);
  T* const later = partial<T>() + 2 * chunk_;
  const auto go_round = [&](int64_t done, T* sum) {
    for (int step = 2; step < size_; ++step) {
      T* const incoming = step == size_ - 1 ? receive + done : later + (step % 2) * chunk_;
      pass_on(sum, piece(counts[block_at(step - 1)], done, chunk_), incoming,
              piece(counts[block_at(step)], done, chunk_), sizeof(T), doing);
      add_own(step, done, incoming, incoming);
      sum = incoming;
    }
  };
  int64_t next = 0;  // chunk's start
  receive_chunks<T>(counts[block_at(1)], doing, [&](int64_t done, const T* part, int) {
    T* const sum = size_ == 2 ? receive + done : later + chunk_;
    add_own(1, done, part, sum);
    go_round(done, sum);
    next = done + chunk_;
  });
  for (; next < longest; next += chunk_) {  // of blocks that are longer than the first
    go_round(next, later + chunk_);
  }
  check_mpi(MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE), doing);
}

void MpiCollectives::pass_on(const void* send, int64_t send_count, void* receive,
                             int64_t receive_count, int64_t bytes, const std::string& doing) {
  for (int64_t done = 0; done < std::max(send_count, receive_count); done += max_piece_) {
    const int out = piece(send_count, done, max_piece_);
    const int in = piece(receive_count, done, max_piece_);
    const int to = out > 0 ? right() : MPI_PROC_NULL;
    const int from = in > 0 ? left() : MPI_PROC_NULL;
    // No address where there is nothing: one behind the end may belong to something else.
    check_mpi(MPI_Sendrecv(out > 0 ? at(send, done, bytes) : nullptr, out, moved(bytes), to, 0,
                           in > 0 ? at(receive, done, bytes) : nullptr, in, moved(bytes), from, 0,
                           group_, MPI_STATUS_IGNORE),
              doing);
  }
}

// All messages at once, as Open MPI does for as many ranks as a node has: uneven
// pieces do not wait for each other.
void MpiCollectives::all_to_all(const void* send, const std::vector<int64_t>& send_counts,
                                void* receive, const std::vector<int64_t>& receive_counts,
                                DType dtype, const std::string& doing) {
  const PatientWait wait;
  const int64_t bytes = size_of(dtype);
  const std::vector<int64_t> send_starts = starts_of(send_counts);
  const std::vector<int64_t> receive_starts = starts_of(receive_counts);
  std::vector<MPI_Request> requests;
  for (int step = 1; step < size_; ++step) {
    const int from = (rank_ - step + size_) % size_;
    const auto peer = static_cast<size_t>(from);
    for (int64_t done = 0; done < receive_counts[peer]; done += max_piece_) {
      check_mpi(MPI_Irecv(at(receive, receive_starts[peer] + done, bytes),
                          piece(receive_counts[peer], done, max_piece_), moved(bytes), from, 0,
                          group_, &requests.emplace_back(MPI_REQUEST_NULL)),
                doing);
    }
  }
  for (int step = 1; step < size_; ++step) {
    const int to = (rank_ + step) % size_;
    const auto peer = static_cast<size_t>(to);
    for (int64_t done = 0; done < send_counts[peer]; done += max_piece_) {
      check_mpi(MPI_Isend(at(send, send_starts[peer] + done, bytes),
                          piece(send_counts[peer], done, max_piece_), moved(bytes), to, 0, group_,
                          &requests.emplace_back(MPI_REQUEST_NULL)),
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
  const PatientWait wait;
  const int64_t bytes = size_of(dtype);
  const MovePart part = move_part(sources, rank_, size_, doing);
  std::vector<MPI_Request> requests;
  for (int64_t done = 0; done < count; done += max_piece_) {
    const int elements = piece(count, done, max_piece_);
    if (part.receives) {
      check_mpi(MPI_Irecv(at(receive, done, bytes), elements, moved(bytes),
                          sources[static_cast<size_t>(rank_)], 0, group_,
                          &requests.emplace_back(MPI_REQUEST_NULL)),
                doing);
    }
    for (const int to : part.sends_to) {
      check_mpi(MPI_Isend(at(send, done, bytes), elements, moved(bytes), to, 0, group_,
                          &requests.emplace_back(MPI_REQUEST_NULL)),
                doing);
    }
  }
  check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
            doing);
}

}  // namespace hidup
