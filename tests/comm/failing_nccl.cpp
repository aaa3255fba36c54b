// Four ranks pass data on until the fault of HIDUP_FAKE_NCCL_FAULT, or until rank 1 leaves the
// others waiting. Words of the argument: without `moves`, sums go back and forth between rows and
// columns; with it, a value goes from rank to rank on a stream and another one back on a second
// stream, as between the stages of a pipeline. late: rank 1 never comes to the third round; slow:
// it comes after 0.3 s. recorded: a graph repeats the second round from there on.
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "comm/mpi_session.h"
#include "comm/nccl_communicator.h"
#include "core/check.h"

namespace {

using hidup::Buffer;
using hidup::Communicator;
using hidup::DType;
using hidup::Stream;

class Ranks {
 public:
  explicit Ranks(hidup::MpiSession& mpi)
      : mpi_(mpi), device_(hidup::make_device({.local_rank = mpi.local_rank()})) {
    mpi.watchdog().set_timeout(1.0);
  }
  virtual ~Ranks() = default;

  // Issues the communication of a round.
  virtual void issue(int round) = 0;
  virtual void check_round() {}

  void run(const std::string& how) {
    const auto says = [&](const char* word) { return how.find(word) != std::string::npos; };
    std::unique_ptr<hidup::Recording> recording;
    for (int round = 1; round <= 5; ++round) {
      if (rank() == 1 && round == 3 && (says("late") || says("slow"))) {
        std::this_thread::sleep_for(says("late") ? std::chrono::seconds(30)
                                                 : std::chrono::milliseconds(300));
      }
      if (says("recorded") && round == 2) {
        recording =
            device_->record(std::array{first_.get(), second_.get()}, true, [&] { issue(round); });
      }
      recording == nullptr ? issue(round) : recording->replay();
      first_->synchronize();
      second_->synchronize();
      check_round();
    }
  }

 protected:
  int rank() const { return mpi_.world().rank(); }
  std::unique_ptr<Communicator> along(const std::string& axis, int color) {
    return hidup::make_nccl_communicator(mpi_.world().split(color), axis, rank(), {},
                                         mpi_.watchdog());
  }

  hidup::MpiSession& mpi_;
  std::unique_ptr<hidup::Device> device_;
  std::unique_ptr<Stream> first_ = device_->create_stream("first", 1);
  std::unique_ptr<Stream> second_ = device_->create_stream("second", 1);
};

class Sums final : public Ranks {
 public:
  explicit Sums(hidup::MpiSession& mpi) : Ranks(mpi) {}

  void issue(int round) override {
    for (Communicator* group : {row_.get(), column_.get()}) {
      group->all_reduce(*first_, buffer_->data(), 1, DType::f32,
                        hidup::CollectiveAlgorithm::automatic, "sum " + std::to_string(round));
    }
  }

 private:
  std::unique_ptr<Buffer> buffer_ = device_->allocate(4);
  std::unique_ptr<Communicator> row_ = along("row", rank() / 2);
  std::unique_ptr<Communicator> column_ = along("column", rank() % 2);
};

class Moves final : public Ranks {
 public:
  explicit Moves(hidup::MpiSession& mpi) : Ranks(mpi) {
    const auto mine = static_cast<float>(rank());
    for (const auto& [stream, buffer] :
         {std::pair(first_.get(), down_.get()), {second_.get(), up_.get()}}) {
      stream->copy(buffer->data(), &mine, 4);
      stream->synchronize();
    }
  }

  // Ranks 0 and 3 send their numbers, down and up, to ranks 1 and 2, which pass them on.
  void issue(int round) override {
    const std::string name = "value " + std::to_string(round);
    for (const bool down : {true, false}) {
      Stream& stream = down ? *first_ : *second_;
      std::byte* const data = (down ? down_ : up_)->data();
      const bool from_even_pair = (rank() % 2 == 1) == down;
      for (const bool even_pair : {from_even_pair, !from_even_pair}) {
        const auto& group = groups_[down ? 0 : 1][even_pair ? 0 : 1];
        if (group->size() == 2) {
          group->move(stream, data, data, 1, down ? std::vector{0, 0} : std::vector{1, 1},
                      DType::f32, name);
        }
      }
    }
  }

  void check_round() override {
    float down = -1.0F, up = -1.0F;
    first_->copy(&down, down_->data(), 4);
    second_->copy(&up, up_->data(), 4);
    first_->synchronize();
    second_->synchronize();
    hidup::check(down == 0.0F && up == 3.0F, "rank {} has {} from above and {} from below", rank(),
                 down, up);
  }

 private:
  std::unique_ptr<Buffer> down_ = device_->allocate(4);
  std::unique_ptr<Buffer> up_ = device_->allocate(4);
  // [direction][0: ranks 0 and 1, ranks 2 and 3; 1: ranks 1 and 2, each other rank alone]
  std::array<std::array<std::unique_ptr<Communicator>, 2>, 2> groups_ = {
      {{along("down", rank() / 2), along("down", (rank() + 1) / 2)},
       {along("up", rank() / 2), along("up", (rank() + 1) / 2)}}};
};

}  // namespace

int main(int argc, char** argv) {
  hidup::MpiSession mpi(&argc, &argv);
  const std::string how = argc > 1 ? argv[1] : "";
  try {
    if (how.find("moves") == std::string::npos) {
      Sums(mpi).run(how);
    } else {
      Moves(mpi).run(how);
    }
  } catch (const hidup::Error& error) {
    hidup::abort_all_ranks(error.code(), error.what());
  }
  return 0;
}
