#include <algorithm>
#include <array>

#include "comm/counts.h"
#include "comm/mpi_algorithms.h"

namespace hidup {
namespace {

// The blocks of a reduce-scatter, by the step in which they come to this rank.
class PassingBlocks {
 public:
  PassingBlocks(const MpiMessages& messages, const void* send, const std::vector<int64_t>& counts,
                int64_t bytes)
      : messages_(messages),
        send_(static_cast<const std::byte*>(send)),
        counts_(counts),
        starts_(starts_of(counts)),
        bytes_(bytes) {}

  int64_t count(int step) const { return counts_[block(step)]; }
  // Returns the elements of the chunk that begins at `done`.
  int64_t chunk(int step, int64_t done) const {
    return std::clamp<int64_t>(count(step) - done, 0, messages_.chunk());
  }
  // Returns this rank's summand, from element `done` on.
  const std::byte* own(int step, int64_t done) const {
    return send_ + (starts_[block(step)] + done) * bytes_;
  }

 private:
  size_t block(int step) const { return static_cast<size_t>(messages_.after(-1 - step)); }

  const MpiMessages& messages_;
  const std::byte* send_;
  const std::vector<int64_t>& counts_;
  std::vector<int64_t> starts_;
  int64_t bytes_;
};

// Partial sums on their way round the ring, to which each rank adds its own part.
class SumsOnTheirWay {
 public:
  SumsOnTheirWay(MpiMessages& messages, const PassingBlocks& blocks, void* receive,
                 const Elements& elements, const std::string& doing)
      : messages_(messages),
        blocks_(blocks),
        receive_(receive),
        elements_(elements),
        doing_(doing) {}

  // Returns the buffer of the chunk that begins at `done`; in the last step, the result.
  void* place(int step, int64_t done) const {
    return step == messages_.size() - 1 ? at(receive_, done, elements_.bytes)
                                        : messages_.relay(step % 2);
  }
  void add_own(int step, int64_t done, const void* part) const {
    const std::array<const void*, 2> summands = {part, blocks_.own(step, done)};
    if (blocks_.chunk(step, done) > 0) {
      elements_.sum(place(step, done), summands, blocks_.chunk(step, done));
    }
  }
  // Runs the steps from 2 on. The result may overlap this rank's own summand.
  void go_round(int64_t done) {
    for (int step = 2; step < messages_.size(); ++step) {
      void* const incoming = messages_.relay(step % 2);
      messages_.exchange({{place(step - 1, done), blocks_.chunk(step - 1, done)}},
                         messages_.after(1), {{incoming, blocks_.chunk(step, done)}},
                         messages_.after(-1), elements_.bytes, doing_);
      add_own(step, done, incoming);
    }
  }

 private:
  MpiMessages& messages_;
  const PassingBlocks& blocks_;
  void* receive_;
  const Elements& elements_;
  const std::string& doing_;
};

}  // namespace

void ring_all_reduce(MpiMessages& messages, void* data, int64_t count, const Elements& elements,
                     const std::string& doing) {
  const int size = messages.size();
  const auto block_at = [&](int step) -> Run {
    const int64_t b = messages.after(-step);
    const int64_t start = count * b / size;
    return {at(data, start, elements.bytes), count * (b + 1) / size - start};
  };
  for (int step = 1; step < size; ++step) {
    messages.exchange_and_add({block_at(step)}, messages.after(1), {block_at(step + 1)},
                              messages.after(-1), elements, doing);
  }
  for (int step = 0; step < size - 1; ++step) {
    messages.exchange({block_at(step)}, messages.after(1), {block_at(step + 1)}, messages.after(-1),
                      elements.bytes, doing);
  }
}

void ring_all_gather(MpiMessages& messages, const void* send, void* receive,
                     const std::vector<int64_t>& counts, int64_t bytes, const std::string& doing) {
  const std::vector<int64_t> starts = starts_of(counts);
  const auto block_at = [&](int step) -> Run {
    const auto block = static_cast<size_t>(messages.after(-step));
    return {at(receive, starts[block], bytes), counts[block]};
  };
  copy_now(block_at(0).data, send, block_at(0).count, bytes);
  for (int step = 1; step < messages.size(); ++step) {
    messages.exchange({block_at(step - 1)}, messages.after(1), {block_at(step)}, messages.after(-1),
                      bytes, doing);
  }
}

// Sends the first message of every chunk at once.
void ring_reduce_scatter(MpiMessages& messages, const void* send, void* receive,
                         const std::vector<int64_t>& counts, const Elements& elements,
                         const std::string& doing) {
  const PassingBlocks blocks(messages, send, counts, elements.bytes);
  SumsOnTheirWay sums(messages, blocks, receive, elements, doing);
  // MPI does not write to data to send, and nothing else writes to these runs.
  const auto run_of = [&](int step) -> Run {
    return {const_cast<std::byte*>(blocks.own(step, 0)), blocks.count(step)};
  };
  std::vector<MPI_Request> sending =
      messages.send_chunks({run_of(0)}, messages.after(1), elements.bytes, doing);
  int64_t next = 0;  // start of the next chunk
  messages.receive_chunks(
      {run_of(1)}, messages.after(-1), elements.bytes,
      [&](const Run&, const void* part) {
        sums.add_own(1, next, part);
        sums.go_round(next);
        next += messages.chunk();
      },
      doing);
  const int64_t longest = *std::max_element(counts.begin(), counts.end());
  for (; next < longest; next += messages.chunk()) {  // in blocks longer than the first
    sums.go_round(next);
  }
  MpiMessages::wait_for(sending, doing);
}

}  // namespace hidup
