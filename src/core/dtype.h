// Element types of tensors.
#pragma once

#include <cstdint>
#include <string_view>

namespace hidup {

enum class DType { f32, i32 };

constexpr int64_t size_of(DType) {
  return 4;
}

constexpr std::string_view name_of(DType dtype) {
  return dtype == DType::f32 ? "f32" : "i32";
}

}  // namespace hidup
