// A stream that does nothing.
#pragma once

#include <functional>

#include "device/device.h"
#include "kernels/products.h"

namespace hidup {

// A stream like a CPU's that drops its work and records whether the work is said to run beside
// messages.
class WatchingStream final : public Stream {
 public:
  void enqueue(std::function<void()>) override { beside = kernels::BesideMessages::now(); }
  void copy(void*, const void*, int64_t) override {}
  void record(Event&) override {}
  void wait(Event&) override {}
  std::byte* staging(int64_t) override { return nullptr; }
  void synchronize() override {}
  void synchronize(Event&) override {}

  bool beside = false;
};

}  // namespace hidup
