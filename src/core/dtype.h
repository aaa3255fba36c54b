// Element types of tensors.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace hidup {

enum class DType { f32, i32, bf16, f16 };
inline constexpr std::array kDTypes = {DType::f32, DType::i32, DType::bf16, DType::f16};

// Returns the bytes of an element.
constexpr int64_t size_of(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 ? 2 : 4;
}

constexpr bool is_floating(DType dtype) {
  return dtype != DType::i32;
}

constexpr std::string_view name_of(DType dtype) {
  constexpr std::array<std::string_view, kDTypes.size()> kNames = {"f32", "i32", "bf16", "f16"};
  return kNames.at(static_cast<size_t>(dtype));
}

}  // namespace hidup
