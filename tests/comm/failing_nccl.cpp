// Four ranks in rows and columns of two pass sums back and forth until the fault of
// HIDUP_FAKE_NCCL_FAULT, or until rank 1 leaves the others waiting (argument late). With recorded
// in the argument, a graph repeats the second round from there on.
#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm/mpi_session.h"
#include "comm/nccl_communicator.h"

namespace {

void run(hidup::MpiSession& mpi, const std::string& how) {
  const int rank = mpi.world().rank();
  const auto device = hidup::make_device({.local_rank = mpi.local_rank()});
  const auto stream = device->create_stream("comm", 1);
  const auto buffer = device->allocate(4);
  mpi.watchdog().set_timeout(1.0);
  const auto along = [&](const std::string& axis, int color) {
    return hidup::make_nccl_communicator(mpi.world().split(color), axis, rank, {}, mpi.watchdog());
  };
  const auto row = along("row", rank / 2);
  const auto column = along("column", rank % 2);
  std::unique_ptr<hidup::Recording> recording;
  for (int round = 1; round <= 5; ++round) {
    const auto issue = [&] {
      for (hidup::Communicator* group : {row.get(), column.get()}) {
        group->all_reduce(*stream, buffer->data(), 1, hidup::DType::f32,
                          hidup::CollectiveAlgorithm::automatic, "sum " + std::to_string(round));
      }
    };
    if (how.ends_with("late") && rank == 1 && round == 3) {
      std::this_thread::sleep_for(std::chrono::seconds(30));
    }
    if (how.starts_with("recorded") && round == 2) {
      recording = device->record(std::array{stream.get()}, true, issue);
    }
    recording == nullptr ? issue() : recording->replay();
    stream->synchronize();
  }
}

}  // namespace

int main(int argc, char** argv) {
  hidup::MpiSession mpi(&argc, &argv);
  try {
    run(mpi, argc > 1 ? argv[1] : "");
  } catch (const hidup::Error& error) {
    hidup::abort_all_ranks(error.code(), error.what());
  }
  return 0;
}
