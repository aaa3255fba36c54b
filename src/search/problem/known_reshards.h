// What reshards cost, and single steps of them: many tensors and problems have the same ones.
#pragma once

#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "program/program.h"
#include "search/problem/problem.h"
#include "sharding/reshard.h"

namespace hidup {

// Equal for equal reshards only.
class ReshardKey {
 public:
  // `several`: together with other tensors.
  ReshardKey(const Value& value, bool several) {
    text_.reserve(kTypical);
    add(value.dtype);
    add(several);
    add(value.batch.dim);
    add(value.batch.start);
    add(value.batch.global);
    add(value.shape.size());
    for (const int64_t extent : value.shape) {
      add(extent);
    }
    add(value.layout);
  }
  // The whole reshard, or a step of it.
  void add(const Layout& to) {
    for (const Placement& placement : to) {
      add(placement.kind);
      add(placement.dim);
      add(placement.share);
    }
  }
  void add(const ReshardStep& step) {
    add(step.to);
    add(step.kind);
    add(step.axis);
    for (const size_t axis : step.inner) {
      add(axis);
    }
  }
  const std::string& text() const { return text_; }

 private:
  static constexpr size_t kTypical = 128;

  template <typename Plain>
  requires std::is_trivially_copyable_v<Plain>
  void add(Plain plain) { text_.append(reinterpret_cast<const char*>(&plain), sizeof(plain)); }

  std::string text_;
};

// Several threads may use it.
class KnownReshards {
 public:
  // `cost()` where it is not known yet.
  template <typename Cost>
  Reshard find(const ReshardKey& key, Cost cost) {
    {
      const std::lock_guard lock(mutex_);
      const auto at = known_.find(key.text());
      if (at != known_.end()) {
        return at->second;
      }
    }
    const Reshard reshard = cost();
    const std::lock_guard lock(mutex_);
    known_.emplace(key.text(), reshard);
    return reshard;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, Reshard> known_;
};

}  // namespace hidup
