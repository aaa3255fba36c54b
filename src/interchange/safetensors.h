// Files of the safetensors format: 8 bytes with the length of the header, the header in JSON, and
// the tensors' elements one after the other, row-major and little-endian.
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
  std::optional<DType> dtype = DType::f32;  // none: a type that no parameter has
  Shape shape;                              // {}: one element
  int64_t begin = 0;                        // place of its bytes in the file
  int64_t bytes = 0;
};

class SafetensorsFile {
 public:
  // Opens a file. Throws Error(file) where the header does not fit the format or the file.
  // Allocates no more memory than the header needs, which lies in the file.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_->name(); }
  const std::vector<SafeTensor>& tensors() const { return tensors_; }  // ordered by place
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  const OpenFile& bytes() const { return *file_; }

 private:
  std::shared_ptr<const OpenFile> file_;
  std::vector<SafeTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Returns the beginning of a file with these tensors in their order: length and header, padded so
// that the elements begin at a multiple of 8. Sets `begin` of the tensors to their places.
std::string safetensors_header(std::vector<SafeTensor>& tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace hidup
