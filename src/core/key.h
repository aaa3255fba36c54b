// What is equal, found by a text.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hidup {

// A text that is equal if and only if the same was added to it.
class Key {
 public:
  template <typename Number>
  requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
  void add(Number number) { text_.append(reinterpret_cast<const char*>(&number), sizeof(number)); }
  void add(std::string_view text) {
    add(text.size());
    text_ += text;
  }

  const std::string& text() const { return text_; }
  // Leaves it empty.
  std::string take() { return std::exchange(text_, {}); }
  void clear() { text_.clear(); }

 private:
  std::string text_;
};

}  // namespace hidup
