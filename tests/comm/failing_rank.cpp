// One rank fails in the way that the argument names, while the others wait for it in a collective
// that will never end: all must be ended.
#include <chrono>
#include <csignal>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm/board.h"
#include "comm/launched.h"
#include "comm/mpi_session.h"
#include "device_needed/device_needed.h"

namespace {

// Enters a barrier in its destructor, which must not run while an exception unwinds.
struct WaitsForAll {
  hidup::Communicator& world;
  ~WaitsForAll() { world.barrier(); }
};

void run(hidup::MpiSession& mpi, const std::string& how) {
  using hidup::ExitCode;
  hidup::Communicator& world = mpi.world();
  const auto device = hidup::make_device({});
  const auto stream = device->create_stream("comm", 1);
  mpi.set_timeouts(2.0, 1.0);
  const hidup::Heartbeat::Guide guide(
      mpi.heartbeat(),
      [&how] {
        return hidup::Progress{.step = 4, .instruction = how.ends_with("in_step") ? 7 : -1};
      },
      [](const hidup::Progress& p) { return "in step " + std::to_string(p.step); });
  if (how == "throw_uncaught" && world.rank() == 1) {
    const WaitsForAll waits{world};
    throw std::bad_alloc();
  }
  try {
    if (how == "throw_in_stream" && world.rank() == 1) {
      stream->enqueue([] { throw std::runtime_error("kernel 7 failed"); });
    }
    if (how == "throw_on_host" && world.rank() == 2) {
      hidup::fail(ExitCode::file, "cannot read x");
    }
    if (how == "stop_answering" && world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(1));  // others hear of it first
      std::raise(SIGSTOP);
    }
    if (how == "go_elsewhere" && world.rank() == 1) {
      world.barrier();  // the others come to it later
    }
    if (how == "go_elsewhere_on_host" && world.rank() == 1) {
      world.broadcast("");
    } else if (how == "go_elsewhere_on_host" || how == "busy_on_host") {
      if (how == "busy_on_host" && world.rank() == 1) {  // longer than a collective may take
        std::this_thread::sleep_for(std::chrono::seconds(3));
      }
      world.barrier();
    }
    if (how == "stay_away_in_step" && world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::minutes(1));
    }
    if (how == "stay_away_from_board") {
      hidup::Board board(world, {{0, 1, 2}}, world.share_memory(hidup::Board::bytes_of(1)));
      if (world.rank() == 1) {
        world.barrier();
      }
      board.largest(
          0, 1, [] { return false; }, "the start of x");
    }
    float one = 1.0F;
    if (how == "never_sends_in_step") {
      if (world.rank() == 0) {
        std::this_thread::sleep_for(std::chrono::minutes(1));
      }
      float received = 0.0F;
      world.move(*stream, &one, &received, 1, {0, 0, 0}, hidup::DType::f32,
                 "layers.1.move, microbatch 3");
      stream->synchronize();
    }
    world.all_reduce(*stream, &one, 1, hidup::DType::f32, hidup::CollectiveAlgorithm::automatic,
                     "one");
    stream->synchronize();
    world.barrier();
  } catch (const hidup::Error& error) {
    hidup::abort_all_ranks(error.code(), error.what());
  } catch (const std::exception& error) {
    hidup::abort_all_ranks(ExitCode::internal, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (hidup::without_device()) {
    return hidup::kSkipped;
  }
  std::string how = argc > 1 ? argv[1] : "";
  const std::string ordered = "ordered_";
  const bool is_ordered = how.starts_with(ordered);
  how.erase(0, is_ordered ? ordered.size() : 0);
  if (how == "stop_before_mpi" && hidup::launched_rank() == 1) {
    std::raise(SIGSTOP);
  }
  hidup::MpiSession mpi(&argc, &argv);
  if (how == "stop_as_mpi_runs" && mpi.world().rank() == 1) {
    std::raise(SIGSTOP);
  }
  if (is_ordered) {
    mpi.order_ranks({0, 2, 1});
  }
  run(mpi, how);
  return 0;
}
