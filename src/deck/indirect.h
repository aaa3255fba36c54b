// The holder of a deck's section.
#pragma once

#include <memory>

namespace hidup {

// Owns a value behind a pointer; copies are deep, as those of C++26's std::indirect. So deck.h
// includes no section's header, and a new key rebuilds only sources that read its section. An
// object that was moved from has no value.
template <typename Value>
class Indirect {
 public:
  Indirect();
  Indirect(const Indirect& other);
  Indirect(Indirect&& other) noexcept;
  Indirect& operator=(const Indirect& other);
  Indirect& operator=(Indirect&& other) noexcept;
  Indirect& operator=(const Value& value);
  ~Indirect();

  Value& operator*() { return *value_; }
  const Value& operator*() const { return *value_; }
  Value* operator->() { return value_.get(); }
  const Value* operator->() const { return value_.get(); }

 private:
  std::unique_ptr<Value> value_;
};

}  // namespace hidup
