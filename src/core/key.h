// Keys of maps that are made of several values.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hidup {

// Builds a text that is equal exactly where the same values, of the same types, were added.
class MapKey {
 public:
  template <typename Number>
  requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
  void add(Number number) { text_.append(reinterpret_cast<const char*>(&number), sizeof(number)); }
  void add(std::string_view text) {
    add(text.size());
    text_ += text;
  }

  const std::string& text() const { return text_; }
  // Returns the text and leaves the key empty.
  std::string take() { return std::exchange(text_, {}); }
  void clear() { text_.clear(); }

 private:
  std::string text_;
};

}  // namespace hidup
