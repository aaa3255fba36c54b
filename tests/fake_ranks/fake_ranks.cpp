#include "fake_ranks/fake_ranks.h"

#include <fmt/core.h>

#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "comm/counts.h"
#include "core/check.h"
#include "core/with_type.h"
#include "fake_ranks/meeting.h"

namespace hidup {
namespace {

using Calls = std::vector<Call>;

struct Group {
  Group(std::shared_ptr<FakeWorld> shared, int members)
      : world(std::move(shared)), size(members), device(world, members), host(world, members) {}

  std::shared_ptr<FakeWorld> world;
  int size;
  Meeting device;
  Meeting host;
};

const std::byte* at(const void* data, int64_t element, DType dtype) {
  return static_cast<const std::byte*>(data) + element * size_of(dtype);
}

std::byte* at(void* data, int64_t element, DType dtype) {
  return static_cast<std::byte*>(data) + element * size_of(dtype);
}

void copy_now(void* to, const void* from, int64_t count, DType dtype) {
  if (count > 0 && to != from) {
    std::memcpy(to, from, static_cast<size_t>(count * size_of(dtype)));
  }
}

// Adds elements [start, start + count) of all ranks' data in float, in the order of ranks, and
// writes the sums to each of `to`.
template <typename T>
void sum_to(const Calls& calls, int64_t start, int64_t count, const std::vector<void*>& to) {
  for (int64_t i = start; i < start + count; ++i) {
    float sum = static_cast<const T*>(calls[0].send)[i];
    for (size_t r = 1; r < calls.size(); ++r) {
      sum += static_cast<const T*>(calls[r].send)[i];
    }
    for (void* const receive : to) {
      static_cast<T*>(receive)[i - start] = T(sum);
    }
  }
}

void all_reduce_now(Calls& calls) {
  std::vector<void*> all;
  for (const Call& call : calls) {
    all.push_back(call.receive);
  }
  with_floating_type(calls[0].dtype,
                     [&](auto zero) { sum_to<decltype(zero)>(calls, 0, calls[0].counts[0], all); });
}

void all_gather_now(Calls& calls) {
  const std::vector<int64_t> starts = starts_of(calls[0].counts);
  for (const Call& to : calls) {
    for (size_t r = 0; r < calls.size(); ++r) {
      copy_now(at(to.receive, starts[r], to.dtype), calls[r].send, to.counts[r], to.dtype);
    }
  }
}

void reduce_scatter_now(Calls& calls) {
  const std::vector<int64_t> starts = starts_of(calls[0].counts);
  for (size_t r = 0; r < calls.size(); ++r) {
    with_floating_type(calls[r].dtype, [&](auto zero) {
      sum_to<decltype(zero)>(calls, starts[r], calls[r].counts[r], {calls[r].receive});
    });
  }
}

void all_to_all_now(Calls& calls) {
  for (size_t to = 0; to < calls.size(); ++to) {
    const std::vector<int64_t> receive_starts = starts_of(calls[to].receive_counts);
    for (size_t from = 0; from < calls.size(); ++from) {
      const std::vector<int64_t> send_starts = starts_of(calls[from].counts);
      const DType dtype = calls[to].dtype;
      copy_now(at(calls[to].receive, receive_starts[from], dtype),
               at(calls[from].send, send_starts[to], dtype), calls[from].counts[to], dtype);
    }
  }
}

// Copies the root's elements; counts: {elements, root}.
void broadcast_now(Calls& calls) {
  const auto root = static_cast<size_t>(calls[0].counts[1]);
  for (size_t r = 0; r < calls.size(); ++r) {
    if (r != root) {
      copy_now(calls[r].receive, calls[root].send, calls[root].counts[0], calls[root].dtype);
    }
  }
}

// Copies every rank's elements from its source; counts: {elements, source of rank 0, ...}.
void move_now(Calls& calls) {
  for (size_t r = 0; r < calls.size(); ++r) {
    const auto source = static_cast<size_t>(calls[r].counts[r + 1]);
    if (source != r) {
      copy_now(calls[r].receive, calls[source].send, calls[source].counts[0], calls[source].dtype);
    }
  }
}

// Throws Error(internal) where the two overlap, which MPI need not notice.
void check_apart(const void* send, int64_t send_count, const void* receive, int64_t receive_count,
                 DType dtype, const std::string& doing) {
  const std::less_equal<const std::byte*> not_after;
  check(send_count == 0 || receive_count == 0 ||
            not_after(at(send, send_count, dtype), at(receive, 0, dtype)) ||
            not_after(at(receive, receive_count, dtype), at(send, 0, dtype)),
        "{}: send overlaps receive", doing);
}

// Returns the algorithm's text for messages: ranks must name the same one; all work alike here.
std::string by(CollectiveAlgorithm algorithm) {
  return algorithm == CollectiveAlgorithm::automatic ? ""
                                                     : " by " + std::string(name_of(algorithm));
}

class FakeCommunicator final : public Communicator {
 public:
  FakeCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size; }

  void all_reduce(Stream& stream, void* data, int64_t count, DType dtype,
                  CollectiveAlgorithm algorithm, const std::string& name) override {
    enqueue(stream, {"all_reduce of " + name + by(algorithm), {count}, {}, data, data, dtype},
            count, count, all_reduce_now);
  }

  void all_gather(Stream& stream, const void* send, void* receive,
                  const std::vector<int64_t>& counts, DType dtype, CollectiveAlgorithm algorithm,
                  const std::string& name) override {
    const std::string doing = "all_gather of " + name + by(algorithm);
    check_counts(counts, size(), doing);
    if (send != at(receive, starts_of(counts)[self()], dtype)) {
      check_apart(send, counts[self()], receive, starts_of(counts).back(), dtype, doing);
    }
    enqueue(stream, {doing, counts, {}, send, receive, dtype}, counts[self()],
            starts_of(counts).back(), all_gather_now);
  }

  void reduce_scatter(Stream& stream, const void* send, void* receive,
                      const std::vector<int64_t>& counts, DType dtype,
                      CollectiveAlgorithm algorithm, const std::string& name) override {
    const std::string doing = "reduce_scatter of " + name + by(algorithm);
    check_counts(counts, size(), doing);
    if (receive != at(send, starts_of(counts)[self()], dtype)) {
      check_apart(send, starts_of(counts).back(), receive, counts[self()], dtype, doing);
    }
    enqueue(stream, {doing, counts, {}, send, receive, dtype}, starts_of(counts).back(),
            counts[self()], reduce_scatter_now);
  }

  void all_to_all(Stream& stream, const void* send, const std::vector<int64_t>& send_counts,
                  void* receive, const std::vector<int64_t>& receive_counts, DType dtype,
                  CollectiveAlgorithm algorithm, const std::string& name) override {
    const std::string doing = "all_to_all of " + name + by(algorithm);
    check_counts(send_counts, size(), doing);
    check_counts(receive_counts, size(), doing);
    check_apart(send, starts_of(send_counts).back(), receive, starts_of(receive_counts).back(),
                dtype, doing);
    enqueue(stream, {doing, send_counts, receive_counts, send, receive, dtype},
            starts_of(send_counts).back(), starts_of(receive_counts).back(), all_to_all_now);
  }

  void broadcast(Stream& stream, void* data, int64_t count, int root, DType dtype,
                 const std::string& name) override {
    enqueue(stream, {"broadcast of " + name, {count, root}, {}, data, data, dtype}, count,
            rank_ == root ? 0 : count, broadcast_now);
  }

  void move(Stream& stream, const void* send, void* receive, int64_t count,
            const std::vector<int>& sources, DType dtype, const std::string& name) override {
    const std::string doing = "move of " + name;
    const MovePart part = move_part(sources, rank_, size(), doing);
    const int64_t sent = part.sends_to.empty() ? 0 : count;
    const int64_t received = part.receives ? count : 0;
    check_apart(send, sent, receive, received, dtype, doing);
    std::vector<int64_t> counts = {count};
    counts.insert(counts.end(), sources.begin(), sources.end());
    enqueue(stream, {doing, counts, {}, send, receive, dtype}, sent, received, move_now);
  }

  void barrier() override {
    group_->host.meet(rank_, {.doing = "barrier"}, [](Calls&) {});
  }

  std::string broadcast(const std::string& text) override {
    std::string received;
    group_->host.meet(rank_, {"broadcast of a text", {}, {}, &text, &received}, [](Calls& calls) {
      for (const Call& call : calls) {
        *static_cast<std::string*>(call.receive) = *static_cast<const std::string*>(calls[0].send);
      }
    });
    return received;
  }

  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    std::vector<std::byte> all;
    const auto bytes = static_cast<int64_t>(mine.size());
    for (const std::vector<std::byte>& part : all_parts("all_gather of bytes", {bytes}, mine)) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) override {
    std::vector<std::vector<std::byte>> parts = all_parts("gather of bytes", {}, mine);
    if (rank_ != 0) {
      parts.clear();
    }
    return parts;
  }

  void exchange(std::span<const std::byte> send, const std::vector<int64_t>& send_counts,
                std::span<std::byte> receive, const std::vector<int64_t>& receive_counts) override {
    check_counts(send_counts, size(), "exchange");
    check_counts(receive_counts, size(), "exchange");
    group_->host.meet(
        rank_, {"exchange", send_counts, receive_counts, send.data(), receive.data()},
        [](Calls& calls) {
          for (size_t to = 0; to < calls.size(); ++to) {
            const std::vector<int64_t> receive_starts = starts_of(calls[to].receive_counts);
            for (size_t from = 0; from < calls.size(); ++from) {
              const std::vector<int64_t> send_starts = starts_of(calls[from].counts);
              std::copy_n(static_cast<const std::byte*>(calls[from].send) + send_starts[to],
                          calls[from].counts[to],
                          static_cast<std::byte*>(calls[to].receive) + receive_starts[from]);
            }
          }
        });
  }

  std::unique_ptr<Communicator> split(int64_t color) override {
    std::unique_ptr<Communicator> mine;
    group_->host.meet(rank_, {"split", {}, {}, &color, &mine}, [this](Calls& calls) {
      std::map<int64_t, std::vector<void*>> members;
      for (const Call& call : calls) {
        members[*static_cast<const int64_t*>(call.send)].push_back(call.receive);
      }
      for (const auto& [same, places] : members) {
        const auto group = std::make_shared<Group>(group_->world, static_cast<int>(places.size()));
        for (size_t r = 0; r < places.size(); ++r) {
          *static_cast<std::unique_ptr<Communicator>*>(places[r]) =
              std::make_unique<FakeCommunicator>(group, static_cast<int>(r));
        }
      }
    });
    return mine;
  }

  std::shared_ptr<std::byte> share_memory(int64_t bytes) override {
    std::shared_ptr<std::byte> mine;
    group_->host.meet(rank_, {"share_memory", {bytes}, {}, nullptr, &mine}, [](Calls& calls) {
      const std::shared_ptr<std::byte> memory = zeroed_memory(calls[0].counts[0]);
      for (const Call& call : calls) {
        *static_cast<std::shared_ptr<std::byte>*>(call.receive) = memory;
      }
    });
    return mine;
  }

 private:
  size_t self() const { return static_cast<size_t>(rank_); }

  // Sends and receives these numbers of elements. The host does it where host tasks cannot reach
  // device memory: such tasks of several streams may take turns, and would wait for each other.
  void enqueue(Stream& stream, Call call, int64_t send_count, int64_t receive_count,
               void (*work)(Calls&)) {
    if (stream.staging(size_of(call.dtype)) == nullptr) {
      stream.enqueue([group = group_, rank = rank_, call = std::move(call), work] {
        group->device.meet(rank, call, work);
      });
      return;
    }
    std::vector<std::byte> sent(static_cast<size_t>(send_count * size_of(call.dtype)));
    std::vector<std::byte> received(static_cast<size_t>(receive_count * size_of(call.dtype)));
    copy_elements(stream, sent.data(), call.send, send_count, call.dtype);
    stream.synchronize();
    const Call on_host = {call.doing,  call.counts,     call.receive_counts,
                          sent.data(), received.data(), call.dtype};
    group_->device.meet(rank_, on_host, work);
    copy_elements(stream, call.receive, received.data(), receive_count, call.dtype);
    stream.synchronize();
  }

  std::vector<std::vector<std::byte>> all_parts(const std::string& doing,
                                                const std::vector<int64_t>& counts,
                                                std::span<const std::byte> mine) {
    std::vector<std::vector<std::byte>> parts;
    group_->host.meet(rank_, {doing, counts, {}, &mine, &parts}, [](Calls& calls) {
      for (const Call& to : calls) {
        auto& received = *static_cast<std::vector<std::vector<std::byte>>*>(to.receive);
        for (const Call& from : calls) {
          const auto& sent = *static_cast<const std::span<const std::byte>*>(from.send);
          received.emplace_back(sent.begin(), sent.end());
        }
      }
    });
    return parts;
  }

  std::shared_ptr<Group> group_;
  int rank_;
};

std::vector<std::unique_ptr<Communicator>> make_ranks(const std::shared_ptr<FakeWorld>& world,
                                                      int ranks) {
  const auto group = std::make_shared<Group>(world, ranks);
  std::vector<std::unique_ptr<Communicator>> communicators;
  communicators.reserve(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    communicators.push_back(std::make_unique<FakeCommunicator>(group, r));
  }
  return communicators;
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_fake_ranks(int ranks, double timeout) {
  return make_ranks(std::make_shared<FakeWorld>(timeout), ranks);
}

void run_ranks(int ranks, const std::function<void(Communicator&)>& body, double timeout) {
  const auto world = std::make_shared<FakeWorld>(timeout);
  const auto communicators = make_ranks(world, ranks);
  std::exception_ptr first;
  const auto run = [&](Communicator& mine) {
    std::string why = "a rank failed";
    try {
      body(mine);
      return;
    } catch (const std::exception& error) {
      why = fmt::format("rank {} failed: {}", mine.rank(), error.what());
      const std::lock_guard lock(world->mutex);
      first = first ? first : std::current_exception();
    } catch (...) {
      const std::lock_guard lock(world->mutex);
      first = first ? first : std::current_exception();
    }
    const std::lock_guard lock(world->mutex);
    world->fail(why);
  };
  std::vector<std::thread> threads;
  threads.reserve(communicators.size());
  for (const std::unique_ptr<Communicator>& mine : communicators) {
    threads.emplace_back(run, std::ref(*mine));
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace hidup
