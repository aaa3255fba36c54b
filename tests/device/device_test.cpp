#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/check.h"
#include "device/device.h"

namespace hidup {
namespace {

using namespace std::chrono_literals;

class DeviceStreams : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_device({});
  std::unique_ptr<Stream> a_ = device_->create_stream("a", 1);
  std::unique_ptr<Stream> b_ = device_->create_stream("b", 1);
};

TEST_F(DeviceStreams, AStreamKeepsItsOrder) {
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) {
    a_->enqueue([&order, i] { order.push_back(i); });
  }
  a_->synchronize();
  ASSERT_EQ(order.size(), 1000U);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST_F(DeviceStreams, StreamsRunBesideEachOther) {
  std::atomic<bool> go = false;
  a_->enqueue([&] {
    while (!go) {
      std::this_thread::sleep_for(1ms);
    }
  });
  // The test waits by a copy, because host tasks of two streams may take turns on a GPU.
  const std::unique_ptr<Buffer> buffer = device_->allocate(8);
  const int64_t sent = 7;
  int64_t received = 0;
  b_->copy(buffer->data(), &sent, 8);
  b_->copy(&received, buffer->data(), 8);
  b_->synchronize();  // would never return if streams took turns
  go = true;
  a_->synchronize();
  EXPECT_EQ(received, 7);
}

TEST_F(DeviceStreams, AnEventOrdersStreamsInEveryRound) {
  const std::unique_ptr<Event> event = device_->create_event();
  int value = 0;  // a data race without the event
  for (int round = 1; round <= 200; ++round) {
    a_->enqueue([&] {
      std::this_thread::yield();
      ++value;
    });
    a_->record(*event);
    b_->wait(*event);
    int seen = 0;
    b_->enqueue([&] { seen = value; });
    b_->synchronize();
    EXPECT_EQ(seen, round);
  }
  EXPECT_TRUE(event->reached());
}

TEST_F(DeviceStreams, TheHostWaitsForAnEventAndNotForWhatComesBehind) {
  const std::unique_ptr<Buffer> buffer = device_->allocate(8);
  const std::unique_ptr<Buffer> host = device_->allocate_host(16);
  auto* const numbers = reinterpret_cast<int64_t*>(host->data());
  EXPECT_EQ(numbers[1], 0);
  const std::unique_ptr<Event> event = device_->create_event();
  for (int64_t round = 1; round <= 3; ++round) {
    std::atomic<bool> go = false;
    numbers[0] = round;
    a_->copy(buffer->data(), &numbers[0], 8);
    a_->copy(&numbers[1], buffer->data(), 8);
    a_->record(*event);
    a_->enqueue([&go] {
      while (!go) {
        std::this_thread::sleep_for(1ms);
      }
    });
    a_->copy(buffer->data(), &numbers[0], 8);  // returns before it begins
    a_->synchronize(*event);
    EXPECT_EQ(numbers[1], round);
    go = true;
    a_->synchronize();
  }
}

TEST_F(DeviceStreams, WhoWaitsForAnEventLearnsWhatFailedBefore) {
  const std::unique_ptr<Event> event = device_->create_event();
  a_->enqueue([] { throw std::runtime_error("no"); });
  a_->record(*event);
  EXPECT_THROW(a_->synchronize(*event), std::runtime_error);
}

TEST_F(DeviceStreams, EventsTellTheTime) {
  const std::unique_ptr<Event> start = device_->create_event();
  const std::unique_ptr<Event> end = device_->create_event();
  const double before = monotonic_seconds();
  a_->record(*start);
  a_->enqueue([] { std::this_thread::sleep_for(2ms); });
  a_->record(*end);
  a_->synchronize();
  EXPECT_GE(start->seconds(), before);
  EXPECT_GE(end->seconds(), start->seconds() + 0.002);
}

TEST_F(DeviceStreams, AnUnrecordedEventDoesNotBlock) {
  const std::unique_ptr<Event> event = device_->create_event();
  a_->wait(*event);
  a_->synchronize();
}

// Threads that are woken for nothing take their core from computation.
TEST_F(DeviceStreams, AWaitSleepsWhileOtherEventsAreRecorded) {
  if (device_kind() != "cpu") {
    GTEST_SKIP() << "waits of GPU streams are not threads of ours";
  }
  const auto sleeps = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  const std::unique_ptr<Event> event = device_->create_event();
  const std::unique_ptr<Event> other = device_->create_event();
  int64_t before = 0, after = 0;
  std::atomic<bool> waits = false;
  a_->enqueue([&] {
    while (!waits) {
      std::this_thread::sleep_for(1ms);
    }
  });
  for (int round = 0; round < 200; ++round) {
    a_->enqueue([] { std::this_thread::sleep_for(100us); });
    a_->record(*other);
  }
  a_->record(*event);
  b_->enqueue([&] { before = sleeps(), waits = true; });
  b_->wait(*event);
  b_->enqueue([&] { after = sleeps(); });
  b_->synchronize();
  EXPECT_LT(after - before, 20);
}

// A stream that throws must not leave another one waiting for its event.
TEST_F(DeviceStreams, AFailureEndsAllStreamsAndIsThrownOnce) {
  const std::unique_ptr<Event> event = device_->create_event();
  bool later = false;
  a_->enqueue([] { throw std::runtime_error("kernel 7 failed"); });
  a_->record(*event);
  b_->wait(*event);
  b_->enqueue([&] { later = true; });
  for (Stream* stream : {a_.get(), b_.get()}) {
    try {
      stream->synchronize();
      ADD_FAILURE() << "no failure";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "kernel 7 failed");
    }
  }
  EXPECT_FALSE(later);
}

TEST_F(DeviceStreams, MemoryIsZeroedAndAligned) {
  const std::unique_ptr<Buffer> buffer = device_->allocate(100000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kAlignment, 0U);
  std::vector<std::byte> found(100000, std::byte{1});
  a_->copy(found.data(), buffer->data(), 100000);
  a_->synchronize();
  EXPECT_EQ(std::ranges::count(found, std::byte{0}), 100000);
}

TEST_F(DeviceStreams, CopiesInOrder) {
  const std::unique_ptr<Buffer> buffer = device_->allocate(16);
  const int64_t sent[2] = {7, 8};
  int64_t received[2] = {};
  a_->copy(buffer->data(), sent, 16);
  a_->copy(received, buffer->data(), 16);
  a_->synchronize();
  EXPECT_EQ(received[0], 7);
  EXPECT_EQ(received[1], 8);
}

// Messages of growing length pass through the host without a wait in between.
TEST_F(DeviceStreams, StagingTakesDataToTheHostAndBack) {
  if (device_kind() == "cpu") {
    EXPECT_EQ(a_->staging(1), nullptr);  // host tasks reach all memory
    return;
  }
  std::vector<int64_t> values(100000);
  std::iota(values.begin(), values.end(), 0);
  const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(int64_t));
  const std::unique_ptr<Buffer> buffer = device_->allocate(bytes);
  a_->copy(buffer->data(), values.data(), bytes);
  for (const size_t count : {size_t{10}, size_t{20000}, values.size()}) {
    const auto length = static_cast<int64_t>(count * sizeof(int64_t));
    std::byte* const host = a_->staging(length);
    a_->copy(host, buffer->data(), length);
    a_->enqueue([=] {
      auto* const on_host = reinterpret_cast<int64_t*>(host);
      std::transform(on_host, on_host + count, on_host, [](int64_t value) { return value + 1; });
    });
    a_->copy(buffer->data(), host, length);
  }
  std::vector<int64_t> received(values.size());
  a_->copy(received.data(), buffer->data(), bytes);
  a_->synchronize();
  for (size_t i = 0; i < received.size(); ++i) {
    ASSERT_EQ(received[i], values[i] + (i < 10 ? 3 : i < 20000 ? 2 : 1));
  }
}

TEST(MakeDevice, RefusesTooMuchMemoryWithBothFigures) {
  const std::unique_ptr<Device> device = make_device({.memory = 1 << 20});
  try {
    device->allocate(2 << 20);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_STREQ(error.what(), "the plan needs 2.00 MiB, the device has 1.00 MiB");
  }
}

TEST(MakeDevice, RanksThatShareAGpuDivideItsMemory) {
  const int64_t whole = make_device({})->memory();
  const int64_t share = make_device({.sharing = 4})->memory();
  EXPECT_EQ(share, device_kind() == "cpu" ? whole : whole / 4);
  EXPECT_EQ(make_device({.memory = 1 << 20, .sharing = 4})->memory(), 1 << 20);
}

TEST(MakeDevice, TakesWhatIsFreeUnlessToldHowMuch) {
  constexpr int64_t kHeld = int64_t{64} << 20;
  const std::unique_ptr<Device> device = make_device({});
  const std::unique_ptr<Device> sharing = make_device({.sharing = 4});
  const std::unique_ptr<Device> told = make_device({.memory = 1 << 20});
  const int64_t whole = device->memory();
  const std::unique_ptr<Buffer> held = told->allocate(1 << 20);
  const std::unique_ptr<Buffer> beside = device->allocate(kHeld);
  for (const auto& each : {&device, &sharing, &told}) {
    (*each)->take_free_memory();
  }
  EXPECT_EQ(told->memory(), 1 << 20);
  if (device_kind() == "cpu") {
    EXPECT_EQ(device->memory(), whole);
    return;
  }
  EXPECT_LT(device->memory(), whole - kHeld);
  EXPECT_NEAR(static_cast<double>(sharing->memory()), static_cast<double>(device->memory()) / 4,
              static_cast<double>(whole) / 64);
  try {
    device->allocate(whole);
    ADD_FAILURE() << "no failure";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_TRUE(std::string(error.what()).ends_with(" free for this rank")) << error.what();
  }
}

TEST(MakeDevice, RefusesKindsItWasNotLinkedWith) {
  for (const std::string kind : {"cpu", "cuda"}) {
    if (kind == device_kind()) {
      EXPECT_NE(make_device({.kind = kind})->name(), "");
      continue;
    }
    try {
      make_device({.kind = kind});
      ADD_FAILURE() << kind;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::unavailable);
    }
  }
}

}  // namespace
}  // namespace hidup
