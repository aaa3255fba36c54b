#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "comm/counts.h"
#include "comm/mpi_algorithms.h"
#include "core/check.h"

namespace hidup {
namespace {

// Bytes of pieces in the first message of a step, for which every receiver has a buffer.
constexpr int64_t kFirst = int64_t{1} << 16;

// A piece that is being forwarded, or that has arrived.
struct Piece {
  const std::byte* data;
  int64_t bytes;
};

std::byte* changeable(const std::byte* data) {
  return const_cast<std::byte*>(data);  // MPI does not write to data to send
}

// The data for another rank in a step: the lengths of the pieces, then the pieces.
class Parcel {
 public:
  explicit Parcel(int64_t bytes)
      : bytes_(bytes),
        memory_(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes))) {}

  std::byte* at(int64_t offset) const { return memory_.get() + offset; }
  // Return the part that is sent at once, and the rest.
  std::vector<Run> first(int64_t limit) const { return {{at(0), std::min(bytes_, limit)}}; }
  std::vector<Run> rest(int64_t limit) const {
    const int64_t sent = std::min(bytes_, limit);
    return {{at(sent), bytes_ - sent}};
  }

 private:
  int64_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

Parcel pack(const std::vector<Piece>& pieces) {
  int64_t bytes = 0;
  for (const Piece& piece : pieces) {
    bytes += static_cast<int64_t>(sizeof(int64_t)) + piece.bytes;
  }
  Parcel parcel(bytes);
  int64_t length_at = 0;
  auto data_at = static_cast<int64_t>(pieces.size() * sizeof(int64_t));
  for (const Piece& piece : pieces) {
    std::memcpy(parcel.at(length_at), &piece.bytes, sizeof(int64_t));
    copy_now(parcel.at(data_at), piece.data, piece.bytes, 1);
    length_at += static_cast<int64_t>(sizeof(int64_t));
    data_at += piece.bytes;
  }
  return parcel;
}

// Sends the pieces to a rank while as many arrive from another rank; these replace them. Moves the
// memory of the arrived pieces to `kept`.
void swap_pieces(MpiMessages& messages, std::vector<Piece>& pieces, int to, int from,
                 std::vector<Parcel>& kept, const std::string& doing) {
  const auto lengths = static_cast<int64_t>(pieces.size() * sizeof(int64_t));
  const int64_t limit = std::max(lengths, std::min(lengths + kFirst, messages.max_piece()));
  const Parcel out = pack(pieces);
  Parcel in(limit);
  messages.exchange(out.first(limit), to, {{in.at(0), limit}}, from, 1, doing);
  int64_t bytes = lengths;
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::memcpy(&pieces[i].bytes, in.at(static_cast<int64_t>(i * sizeof(int64_t))),
                sizeof(int64_t));
    bytes += pieces[i].bytes;
  }
  if (bytes > limit) {
    Parcel whole(bytes);
    copy_now(whole.at(0), in.at(0), limit, 1);
    in = std::move(whole);
  }
  messages.exchange(out.rest(limit), to, in.rest(limit), from, 1, doing);
  int64_t next = lengths;
  for (Piece& piece : pieces) {
    piece.data = in.at(next);
    next += piece.bytes;
  }
  kept.push_back(std::move(in));
}

}  // namespace

void pairwise_all_to_all(MpiMessages& messages, const void* send,
                         const std::vector<int64_t>& send_counts, void* receive,
                         const std::vector<int64_t>& receive_counts, int64_t bytes,
                         const std::string& doing) {
  const std::vector<int64_t> send_starts = starts_of(send_counts);
  const std::vector<int64_t> receive_starts = starts_of(receive_counts);
  const auto self = static_cast<size_t>(messages.rank());
  copy_now(at(receive, receive_starts[self], bytes), at(send, send_starts[self], bytes),
           send_counts[self], bytes);
  for (int step = 1; step < messages.size(); ++step) {
    const auto to = static_cast<size_t>(messages.after(step));
    const auto from = static_cast<size_t>(messages.after(-step));
    messages.exchange({{changeable(at(send, send_starts[to], bytes)), send_counts[to]}},
                      static_cast<int>(to),
                      {{at(receive, receive_starts[from], bytes), receive_counts[from]}},
                      static_cast<int>(from), bytes, doing);
  }
}

void bruck_all_to_all(MpiMessages& messages, const void* send,
                      const std::vector<int64_t>& send_counts, void* receive,
                      const std::vector<int64_t>& receive_counts, int64_t bytes,
                      const std::string& doing) {
  const int size = messages.size();
  const std::vector<int64_t> send_starts = starts_of(send_counts);
  const std::vector<int64_t> receive_starts = starts_of(receive_counts);
  std::vector<Piece> by_distance;
  for (int j = 0; j < size; ++j) {
    const auto to = static_cast<size_t>(messages.after(j));
    by_distance.push_back({at(send, send_starts[to], bytes), send_counts[to] * bytes});
  }
  std::vector<Parcel> kept;
  for (int distance = 1; distance < size; distance *= 2) {
    const auto is_sent = [&](int j) { return (j & distance) != 0; };
    std::vector<Piece> pieces;
    for (int j = 0; j < size; ++j) {
      if (is_sent(j)) {
        pieces.push_back(by_distance[static_cast<size_t>(j)]);
      }
    }
    swap_pieces(messages, pieces, messages.after(distance), messages.after(-distance), kept, doing);
    auto come = pieces.begin();
    for (int j = 0; j < size; ++j) {
      if (is_sent(j)) {
        by_distance[static_cast<size_t>(j)] = *come++;
      }
    }
  }
  for (int j = 0; j < size; ++j) {
    const auto from = static_cast<size_t>(messages.after(-j));
    const Piece& piece = by_distance[static_cast<size_t>(j)];
    check(piece.bytes == receive_counts[from] * bytes,
          "{}: rank {} sends {} bytes to rank {}, which expects {}", doing, from, piece.bytes,
          messages.rank(), receive_counts[from] * bytes);
    copy_now(at(receive, receive_starts[from], bytes), piece.data, piece.bytes, 1);
  }
}

}  // namespace hidup
