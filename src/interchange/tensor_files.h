// The tensors of a model that another program wrote.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "interchange/safetensors.h"

namespace hidup {

// A tensor, and the file that holds it.
struct PlacedTensor {
  const SafetensorsFile* file = nullptr;
  const SafeTensor* tensor = nullptr;
};

// One safetensors file, or several that an index lists.
class TensorFiles {
 public:
  // Opens a file NAME.safetensors, an index NAME.json, or a folder with model.safetensors or
  // model.safetensors.index.json. Throws Error(file).
  explicit TensorFiles(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& folder() const { return folder_; }  // may hold config.json
  const std::map<std::string, PlacedTensor, std::less<>>& tensors() const { return tensors_; }

 private:
  void add(const std::string& path);
  void add_indexed(const std::string& index);

  std::string path_;
  std::string folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, PlacedTensor, std::less<>> tensors_;
};

}  // namespace hidup
