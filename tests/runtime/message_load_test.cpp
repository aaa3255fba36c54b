// The computation that runs while messages are timed.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/profiler.h"

namespace hidup {
namespace {

// A device that records the sizes of its allocations.
class WatchedDevice final : public Device {
 public:
  std::string name() const override { return device_->name(); }
  std::string description() const override { return device_->description(); }
  int64_t memory() const override { return device_->memory(); }
  int64_t cache() const override { return device_->cache(); }
  void take_free_memory() override { device_->take_free_memory(); }
  std::unique_ptr<Buffer> allocate(int64_t bytes) override {
    sizes_.push_back(bytes);
    return device_->allocate(bytes);
  }
  std::unique_ptr<Buffer> allocate_host(int64_t bytes) override {
    return device_->allocate_host(bytes);
  }
  int64_t allocated() const override { return device_->allocated(); }
  std::unique_ptr<Stream> create_stream(const std::string& name, int threads) override {
    return device_->create_stream(name, threads);
  }
  std::unique_ptr<Event> create_event() override { return device_->create_event(); }
  std::unique_ptr<Recording> record(std::span<Stream* const> streams, bool timed,
                                    const std::function<void()>& issue) override {
    return device_->record(streams, timed, issue);
  }
  bool allocated_one_of(int64_t bytes) const { return std::ranges::count(sizes_, bytes) > 0; }

 private:
  std::unique_ptr<Device> device_ = make_device({});
  std::vector<int64_t> sizes_;
};

TEST(MessageLoad, IsAProductOfTheModelsSize) {
  const std::unique_ptr<Communicator> world = make_self_communicator();
  const Mesh mesh = {{"ranks", 1}};
  const MeshGroups groups(*world, mesh);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    WatchedDevice device;
    const ComputeLoad load{.dtype = dtype, .rows = 37, .summed = 65, .columns = 101};
    time_collectives(device, groups, mesh, *world, 1, load,
                     {.bytes = 1 << 20, .seconds = 0.05, .repetitions = 3});
    for (const int64_t elements : {37 * 65, 65 * 101, 37 * 101}) {
      EXPECT_TRUE(device.allocated_one_of(elements * size_of(dtype))) << elements;
    }
    EXPECT_EQ(device.allocated(), 0);
  }
}

}  // namespace
}  // namespace hidup
