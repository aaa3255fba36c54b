// Threads that nap where they yield: all that wait in MPI do. Run it under mpirun on two ranks.
#include "comm/patient_yield.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/mpi_communicator.h"
#include "comm/mpi_session.h"
#include "comm/watchdog.h"
#include "device_needed/mpi_main.h"

namespace {

thread_local std::atomic<int>* naps_here = nullptr;  // counts this thread's naps

}  // namespace

// Replaces the library's function in the whole program.
extern "C" int nanosleep(const timespec* length, timespec* left) {
  if (naps_here != nullptr) {
    ++*naps_here;
  }
  return clock_nanosleep(CLOCK_MONOTONIC, 0, length, left) == 0 ? 0 : -1;
}

namespace hidup {
namespace {

MpiSession* g_mpi = nullptr;  // of the session in main()

constexpr int kYields = 10;

int naps_of_yields() {
  std::atomic<int> naps = 0;
  naps_here = &naps;
  for (int i = 0; i < kYields; ++i) {
    sched_yield();
  }
  naps_here = nullptr;
  return naps;
}

TEST(PatientYield, NapsInAWaitOnly) {
  EXPECT_EQ(naps_of_yields(), 0);
  {
    const PatientWait wait;
    EXPECT_EQ(naps_of_yields(), kYields);
    {
      const PatientWait inner;
      EXPECT_EQ(naps_of_yields(), kYields);
    }
    EXPECT_EQ(naps_of_yields(), kYields);
    std::thread([] { EXPECT_EQ(naps_of_yields(), 0) << "of another thread"; }).join();
  }
  EXPECT_EQ(naps_of_yields(), 0);
}

// A call in which one rank waits until the other one makes it, too.
struct Call {
  std::string name;
  int waits;  // the rank that waits
  std::function<void(Communicator&, Stream&)> run;
  bool on_stream = false;
};

std::vector<Call> host_calls() {
  static const std::byte byte{};
  static std::vector<std::byte> received(2);
  return {
      {"a group", 0, [](auto&, auto&) { make_mpi_communicator(MPI_COMM_WORLD); }},
      {"a watchdog", 0, [](auto&, auto&) { const Watchdog watchdog(30.0); }},
      {"barrier", 0, [](auto& group, auto&) { group.barrier(); }},
      {"broadcast", 1, [](auto& group, auto&) { group.broadcast("x"); }},
      {"all_gather", 0,
       [](auto& group, auto&) {
         group.all_gather({&byte, 1});
       }},
      {"gather", 0,
       [](auto& group, auto&) {
         group.gather({&byte, 1});
       }},
      {"exchange", 0,
       [](auto& group, auto&) {
         group.exchange(std::vector<std::byte>(2), {1, 1}, received, {1, 1});
       }},
      {"split", 0, [](auto& group, auto&) { group.split(0); }},
  };
}

// Returns calls of one element per rank, from `from` to `to`.
std::vector<Call> device_calls(float* from, float* to) {
  const std::vector<int64_t> ones = {1, 1};
  constexpr DType kType = DType::f32;
  return {
      {"all_reduce of device data", 0,
       [=](auto& group, auto& on) {
         group.all_reduce(on, to, 1, kType, CollectiveAlgorithm::automatic, "x");
       },
       true},
      {"all_gather of device data", 0,
       [=](auto& group, auto& on) {
         group.all_gather(on, from, to, ones, kType, CollectiveAlgorithm::automatic, "x");
       },
       true},
      {"reduce_scatter of device data", 0,
       [=](auto& group, auto& on) {
         group.reduce_scatter(on, from, to, ones, kType, CollectiveAlgorithm::automatic, "x");
       },
       true},
      {"all_to_all of device data", 0,
       [=](auto& group, auto& on) {
         group.all_to_all(on, from, ones, to, ones, kType, CollectiveAlgorithm::automatic, "x");
       },
       true},
      {"broadcast of device data", 1,
       [=](auto& group, auto& on) { group.broadcast(on, to, 1, 0, kType, "x"); }, true},
  };
}

// Returns true if the condition comes true within 10 s.
bool comes_true(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 10000 && !condition(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

// The other rank makes the call after this one has napped in it.
void expect_naps(const Call& call, Communicator& group, Stream& stream) {
  if (g_mpi->world().rank() != call.waits) {
    g_mpi->world().barrier();
    call.run(group, stream);
    return stream.synchronize();
  }
  std::atomic<int> naps = 0;
  const auto count_here = [&naps] { naps_here = &naps; };
  std::thread caller([&] {  // like the thread that writes checkpoints
    if (call.on_stream) {
      stream.enqueue(count_here);
    } else {
      count_here();
    }
    call.run(group, stream);
  });
  EXPECT_TRUE(comes_true([&] { return naps > 0; })) << call.name;
  g_mpi->world().barrier();
  caller.join();
  stream.enqueue([] { naps_here = nullptr; });
  stream.synchronize();
}

TEST(PatientYield, WhateverWaitsInMpiNaps) {
  const auto device = make_device({});
  const auto stream = device->create_stream("comm", 1);
  const auto from = device->allocate(1000);
  const auto to = device->allocate(1000);
  const auto group = g_mpi->world().split(0);
  std::vector<Call> calls = host_calls();
  for (Call& call :
       device_calls(reinterpret_cast<float*>(from->data()), reinterpret_cast<float*>(to->data()))) {
    calls.push_back(std::move(call));
  }
  for (const Call& call : calls) {
    expect_naps(call, *group, *stream);
  }
}

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  return hidup::mpi_main(argc, argv, [](hidup::MpiSession& mpi) {
    hidup::g_mpi = &mpi;
    hidup::wait_beside_computation(true);
    return RUN_ALL_TESTS();
  });
}
