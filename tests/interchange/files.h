// safetensors files for tests.
#pragma once

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "interchange/safetensors.h"

namespace hidup::sample {

// Returns a file with this header, right or wrong, and these bytes of elements.
inline std::string file_of(const std::string& header, const std::string& elements) {
  const auto length = static_cast<uint64_t>(header.size());
  std::string begin(sizeof length, '\0');
  std::memcpy(begin.data(), &length, sizeof length);
  return begin + header + elements;
}

// Returns a file of f32 tensors, whose elements count on from `first`.
inline std::string file_of(std::vector<SafeTensor> tensors, float first = 0.0F) {
  std::string text = safetensors_header(tensors, {{"format", "pt"}});
  for (const SafeTensor& tensor : tensors) {
    std::vector<float> values(static_cast<size_t>(elements(tensor.shape)));
    std::iota(values.begin(), values.end(), first);
    first += static_cast<float>(values.size());
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return text;
}

}  // namespace hidup::sample
