// Files of the safetensors format: 8 bytes with the length of a header, the header, which is JSON,
// and the tensors' elements, row-major and little-endian, one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/open_file.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace hidup {

struct SafeTensor {
  std::string name;
  std::optional<DType> dtype = DType::f32;  // none: a type of the format that no parameter has
  Shape shape;                              // {}: one element
  int64_t begin = 0;                        // of its bytes in the file
  int64_t bytes = 0;
};

class SafetensorsFile {
 public:
  // Throws Error(file) where the header, or what it says of the file, is wrong. Allocates no more
  // than the header needs, which lies in the file.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_->name(); }
  const std::vector<SafeTensor>& tensors() const { return tensors_; }  // by their places
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  const OpenFile& bytes() const { return *file_; }

 private:
  std::shared_ptr<const OpenFile> file_;
  std::vector<SafeTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// The beginning of a file with these tensors in their order: length and header, padded so that the
// elements begin at a multiple of 8. `begin` of the tensors is set to where they are to lie.
std::string safetensors_header(std::vector<SafeTensor>& tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace hidup
