#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/check.h"
#include "device/device.h"

namespace hidup {
namespace {

using namespace std::chrono_literals;

class DeviceRecording : public testing::Test {
 protected:
  void SetUp() override {
    if (device_kind() == "cpu") {
      GTEST_SKIP() << "CPU ranks record nothing";
    }
  }

  std::unique_ptr<Recording> record(const std::function<void()>& issue, bool timed = true) {
    return device_->record(std::array{a_.get(), b_.get()}, timed, issue);
  }

  std::unique_ptr<Device> device_ = make_device({});
  std::unique_ptr<Stream> a_ = device_->create_stream("a", 1);
  std::unique_ptr<Stream> b_ = device_->create_stream("b", 1);
};

TEST(CpuRecording, DoesNotExist) {
  if (device_kind() != "cpu") {
    GTEST_SKIP() << "is about CPU ranks";
  }
  const std::unique_ptr<Device> device = make_device({});
  const std::unique_ptr<Stream> stream = device->create_stream("a", 1);
  bool issued = false;
  EXPECT_EQ(device->record(std::array{stream.get()}, true, [&] { issued = true; }), nullptr);
  EXPECT_FALSE(issued);
}

// A value moves from the first stream to the second and back. Work given before and after the
// replays runs before and after all of them.
TEST_F(DeviceRecording, KeepsTheOrderOfBothStreamsAtEveryReplay) {
  const std::unique_ptr<Event> there = device_->create_event();
  const std::unique_ptr<Event> back = device_->create_event();
  std::vector<int> steps;
  const auto give = [&](Stream& stream, int what) {
    stream.enqueue([&steps, what] {
      std::this_thread::sleep_for(200us);
      steps.push_back(what);
    });
  };
  const std::unique_ptr<Recording> recording = record([&] {
    give(*a_, 1);
    a_->record(*there);
    b_->wait(*there);
    give(*b_, 2);
    b_->record(*back);
    a_->wait(*back);
    give(*a_, 3);
    a_->record(*there);
    b_->wait(*there);
    give(*b_, 4);  // the recording ends with work of the other stream
  });
  a_->synchronize();
  EXPECT_TRUE(steps.empty());
  std::vector<int> expected;
  for (int replay = 0; replay < 25; ++replay) {
    give(*a_, 0);
    recording->replay();
    expected.insert(expected.end(), {0, 1, 2, 3, 4});
  }
  a_->synchronize();
  EXPECT_EQ(steps, expected);
}

TEST_F(DeviceRecording, StreamsRunBesideEachOther) {
  std::atomic<int> met = 0;
  const auto meet = [&met] {
    ++met;
    while (met % 2 != 0) {
      std::this_thread::yield();
    }
  };
  const std::unique_ptr<Recording> recording = record([&] {
    a_->enqueue(meet);
    b_->enqueue(meet);
  });
  recording->replay();
  a_->synchronize();
  EXPECT_EQ(met, 2);
}

TEST_F(DeviceRecording, EveryReplayReadsAndWritesMemoryAnew) {
  const std::unique_ptr<Buffer> buffer = device_->allocate(16);
  std::byte* const second = buffer->data() + 8;
  const std::unique_ptr<Recording> recording = record([&] { b_->copy(second, buffer->data(), 8); });
  for (int64_t sent = 1; sent <= 5; ++sent) {
    int64_t received = 0;
    a_->copy(buffer->data(), &sent, 8);
    recording->replay();
    a_->copy(&received, second, 8);
    a_->synchronize();
    EXPECT_EQ(received, sent);
  }
}

TEST_F(DeviceRecording, EveryReplayRenewsTheTimesOfEvents) {
  const std::unique_ptr<Event> start = device_->create_event();
  const std::unique_ptr<Event> end = device_->create_event();
  std::atomic<bool> go = false;
  const std::unique_ptr<Recording> recording = record([&] {
    b_->record(*start);
    b_->enqueue([&go] {
      while (!go) {
        std::this_thread::sleep_for(100us);
      }
    });
    b_->record(*end);
  });
  b_->record(*end);  // outside the recording, too
  b_->synchronize();
  for (int replay = 0; replay < 4; ++replay) {
    const double before = end->seconds();
    go = false;
    recording->replay();
    EXPECT_FALSE(end->reached());
    std::this_thread::sleep_for(2ms);
    go = true;
    a_->synchronize();
    EXPECT_TRUE(end->reached());
    EXPECT_GE(start->seconds(), before);
    EXPECT_GT(end->seconds(), start->seconds());
  }
}

TEST_F(DeviceRecording, WithoutTimesEventsOrderStreamsAndNothingElse) {
  const std::unique_ptr<Event> event = device_->create_event();
  std::vector<int> steps;
  const auto issue = [&] {
    b_->enqueue([&steps] {
      std::this_thread::sleep_for(1ms);
      steps.push_back(1);
    });
    b_->record(*event);
    a_->wait(*event);
    a_->enqueue([&steps] { steps.push_back(2); });
  };
  const std::unique_ptr<Recording> timed = record(issue);
  const std::unique_ptr<Recording> untimed = record(issue, false);
  timed->replay();
  a_->synchronize();
  const double before = event->seconds();
  untimed->replay();
  EXPECT_TRUE(event->reached());
  a_->synchronize();
  EXPECT_EQ(event->seconds(), before);
  timed->replay();
  a_->synchronize();
  EXPECT_GT(event->seconds(), before);
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 1, 2, 1, 2}));
}

// The heartbeat's thread asks for events like this.
TEST_F(DeviceRecording, IsNotDisturbedByThreadsThatAskForEvents) {
  const std::unique_ptr<Event> event = device_->create_event();
  std::atomic<bool> asked = false;
  std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      EXPECT_TRUE(event->reached());
      asked = true;
    }
  });
  const std::unique_ptr<Recording> recording = record([&] {
    a_->record(*event);
    asked = false;
    while (!asked) {
      std::this_thread::yield();
    }
  });
  other.request_stop();
  other.join();
  recording->replay();
  a_->synchronize();
}

TEST_F(DeviceRecording, AFailureInAReplayEndsAllWorkAndIsThrown) {
  int replays = 0;
  int later = 0;
  const std::unique_ptr<Recording> recording = record([&] {
    b_->enqueue([&replays] {
      if (++replays == 3) {
        throw std::runtime_error("task 7 failed");
      }
    });
    b_->enqueue([&later] { ++later; });
  });
  recording->replay();
  recording->replay();
  a_->synchronize();
  EXPECT_EQ(later, 2);
  recording->replay();
  recording->replay();
  for (Stream* stream : {a_.get(), b_.get()}) {
    try {
      stream->synchronize();
      ADD_FAILURE() << "no failure";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "task 7 failed");
    }
  }
  EXPECT_EQ(replays, 3);
  EXPECT_EQ(later, 2);
}

// Work that cannot be recorded is an error, and none of the recording runs; the streams go on.
TEST_F(DeviceRecording, AFailureWhileRecordingLeavesTheStreamsAsTheyWere) {
  const std::unique_ptr<Event> outside = device_->create_event();
  a_->record(*outside);
  int runs = 0;
  const auto expect_error = [&](const char* text, const std::function<void()>& what) {
    try {
      record([&] {
        a_->enqueue([&runs] { ++runs; });
        what();
      });
      ADD_FAILURE() << "no failure, but expected " << text;
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
    const std::unique_ptr<Event> event = device_->create_event();
    b_->enqueue([&runs] { runs += 100; });
    b_->record(*event);
    a_->wait(*event);
    a_->synchronize();
    EXPECT_EQ(runs, 100) << text;
    runs = 0;
  };
  expect_error("the deck is wrong", [] { throw std::runtime_error("the deck is wrong"); });
  expect_error("not in it", [&] { b_->wait(*outside); });
  expect_error("cudaErrorStreamCaptureUnsupported", [&] { a_->synchronize(); });
  expect_error("cudaErrorStreamCaptureUnsupported", [&] { b_->staging(int64_t{1} << 20); });
}

}  // namespace
}  // namespace hidup
