#include "train/held_state.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "checkpoint/runs.h"
#include "comm/collective.h"
#include "core/check.h"

namespace hidup {
namespace {

bool is_same(const Region& a, const Region& b) {
  return std::equal(a.start, a.start + a.dims, b.start) &&
         std::equal(a.extent, a.extent + a.dims, b.extent);
}

using Boxes = std::vector<std::vector<Region>>;  // [rank][tensor]

// The part of a tensor that one rank sends to another.
struct Piece {
  size_t tensor;
  Region box;
  size_t bytes;
};

// Tensors first to end, whose pieces travel together.
struct Portion {
  size_t first;
  size_t end;
};

// Moves tensors from the boxes `before` to the boxes `after`.
class Move {
 public:
  Move(const std::vector<StoredTensor>& tensors, const Boxes& before, const Boxes& after)
      : tensors_(tensors), before_(before), after_(after) {}

  // Returns what `from` sends to `to`, in order. Of ranks with the same box each serves other
  // ranks, and a rank that has a piece takes it from itself.
  std::vector<Piece> pieces(const Portion& portion, size_t from, size_t to) const {
    std::vector<Piece> found;
    for (size_t tensor = portion.first; tensor < portion.end; ++tensor) {
      const Region common = intersection(before_[from][tensor], after_[to][tensor]);
      if (common.elements() > 0 && sender(tensor, from, to) == from) {
        found.push_back(
            {tensor, common, static_cast<size_t>(common.elements()) * size_of_element(tensor)});
      }
    }
    return found;
  }

  // Copy a piece out of a rank's part of the tensor, and into it.
  void pack(const Piece& piece, size_t rank, const std::byte* part, std::byte* to) const {
    for_each_run_in(before_[rank][piece.tensor], piece,
                    [&](size_t in_box, size_t in_piece, size_t bytes) {
                      std::memcpy(to + in_piece, part + in_box, bytes);
                    });
  }
  void unpack(const Piece& piece, size_t rank, const std::byte* from, std::byte* part) const {
    for_each_run_in(after_[rank][piece.tensor], piece,
                    [&](size_t in_box, size_t in_piece, size_t bytes) {
                      std::memcpy(part + in_box, from + in_piece, bytes);
                    });
  }

  size_t bytes_after(size_t rank, size_t tensor) const {
    return static_cast<size_t>(after_[rank][tensor].elements()) * size_of_element(tensor);
  }

 private:
  size_t size_of_element(size_t tensor) const {
    return static_cast<size_t>(size_of(tensors_[tensor].dtype));
  }

  // Returns the rank that sends to `to` what lies in the box of `from`.
  size_t sender(size_t tensor, size_t from, size_t to) const {
    std::vector<size_t> holders;
    for (size_t rank = 0; rank < before_.size(); ++rank) {
      if (is_same(before_[rank][tensor], before_[from][tensor])) {
        holders.push_back(rank);
      }
    }
    return std::ranges::binary_search(holders, to) ? to : holders[to % holders.size()];
  }

  // Calls copy(offset in the box, offset in the piece, bytes) for every run.
  template <typename Copy>
  void for_each_run_in(const Region& box, const Piece& piece, const Copy& copy) const {
    const size_t size = size_of_element(piece.tensor);
    for_each_run(piece.box, 0, piece.box.elements(),
                 [&](int64_t global, int64_t local, int64_t count) {
                   copy(static_cast<size_t>(first_from(box, global)) * size,
                        static_cast<size_t>(local) * size, static_cast<size_t>(count) * size);
                 });
  }

  const std::vector<StoredTensor>& tensors_;
  const Boxes& before_;
  const Boxes& after_;
};

}  // namespace

HeldState::HeldState(Executor& executor, const Communicator& world) {
  for (int rank = 0; rank < world.size(); ++rank) {
    PersistentValues kept = persistent_values(executor.program(), rank);
    boxes_.push_back(std::move(kept.regions));
    if (rank != world.rank()) {
      continue;
    }
    tensors_ = std::move(kept.tensors);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const int64_t count = boxes_.back()[i].elements();
      values_.emplace_back(static_cast<size_t>(count * size_of(tensors_[i].dtype)));
      executor.read(kept.values[i], 0, count, values_.back().data());
    }
  }
}

void HeldState::give(Communicator& world, Executor& executor) const {
  const auto me = static_cast<size_t>(world.rank());
  Boxes after;
  PersistentValues mine;
  for (int rank = 0; rank < world.size(); ++rank) {
    PersistentValues kept = persistent_values(executor.program(), rank);
    after.push_back(kept.regions);
    if (rank == world.rank()) {
      mine = std::move(kept);
    }
  }
  collectively(world, [&] {
    check(std::ranges::equal(tensors_, mine.tensors,
                             [](const StoredTensor& a, const StoredTensor& b) {
                               return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape;
                             }),
          "another program keeps other values");
  });
  const Move move(tensors_, boxes_, after);
  constexpr int64_t kPortion = int64_t{256} << 20;  // bytes, global
  for (Portion portion{}; portion.first < tensors_.size(); portion.first = portion.end) {
    portion.end = portion.first;
    for (int64_t bytes = 0; portion.end < tensors_.size() && bytes < kPortion; ++portion.end) {
      const StoredTensor& tensor = tensors_[portion.end];
      bytes += elements(tensor.shape) * size_of(tensor.dtype);
    }
    std::vector<std::byte> sent;
    std::vector<int64_t> sent_counts;
    std::vector<std::vector<Piece>> expected;
    std::vector<int64_t> received_counts;
    for (size_t other = 0; other < after.size(); ++other) {
      const size_t began = sent.size();
      for (const Piece& piece : move.pieces(portion, me, other)) {
        const size_t place = sent.size();
        sent.resize(place + piece.bytes);
        move.pack(piece, me, values_[piece.tensor].data(), sent.data() + place);
      }
      sent_counts.push_back(static_cast<int64_t>(sent.size() - began));
      expected.push_back(move.pieces(portion, other, me));
      int64_t& count = received_counts.emplace_back(0);
      for (const Piece& piece : expected.back()) {
        count += static_cast<int64_t>(piece.bytes);
      }
    }
    std::vector<std::byte> received(
        static_cast<size_t>(std::reduce(received_counts.begin(), received_counts.end())));
    world.exchange(sent, sent_counts, received, received_counts);
    std::vector<std::vector<std::byte>> parts;
    for (size_t tensor = portion.first; tensor < portion.end; ++tensor) {
      parts.emplace_back(move.bytes_after(me, tensor));
    }
    const std::byte* from = received.data();
    for (const std::vector<Piece>& of_rank : expected) {
      for (const Piece& piece : of_rank) {
        move.unpack(piece, me, from, parts[piece.tensor - portion.first].data());
        from += piece.bytes;
      }
    }
    for (size_t tensor = portion.first; tensor < portion.end; ++tensor) {
      executor.write(mine.values[tensor], 0, after[me][tensor].elements(),
                     parts[tensor - portion.first].data());
    }
  }
}

}  // namespace hidup
