// One rank of several fails in the way the argument says, while the others wait for
// it in a collective that will never end: all must be brought down.
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm/heartbeat.h"
#include "comm/mpi_session.h"

namespace {

void run(hidup::MpiSession& mpi, const std::string& how) {
  using hidup::ExitCode;
  hidup::Communicator& world = mpi.world();
  const auto device = hidup::make_device({});
  const auto stream = device->create_stream("comm", 1);
  const hidup::Heartbeat heartbeat(
      2.0, [] { return hidup::Progress{.step = 4}; },
      [](const hidup::Progress& p) { return "in step " + std::to_string(p.step); });
  try {
    if (how == "throw_in_stream" && world.rank() == 1) {
      stream->enqueue([] { throw std::runtime_error("kernel 7 failed"); });
    }
    if (how == "throw_on_host" && world.rank() == 2) {
      hidup::fail(ExitCode::file, "cannot read x");
    }
    if (how == "stop_answering" && world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(1));  // be heard of first
      std::raise(SIGSTOP);
    }
    float one = 1.0F;
    world.all_reduce(*stream, &one, 1, hidup::DType::f32, "one");
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
  hidup::MpiSession mpi(&argc, &argv);
  run(mpi, argc > 1 ? argv[1] : "");
  return 0;
}
