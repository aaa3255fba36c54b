#include "interchange/tensor_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/check.h"
#include "core/file.h"
#include "core/text.h"

namespace hidup {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOne = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// Returns the files that an index lists.
std::set<std::string> files_of(const std::string& index) {
  const auto refuse = [&](const std::string& why) {
    fail(ExitCode::file, "{}: no index of safetensors files: {}", index, why);
  };
  std::set<std::string> files;
  try {
    const auto json = nlohmann::json::parse(read_text_file(index, "index"));
    if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
      refuse("it has no weight_map");
    }
    for (const auto& [tensor, file] : json["weight_map"].items()) {
      const auto name = file.get<std::string>();
      if (name.empty() || fs::path(name).filename() != name) {
        refuse(shown(tensor) + " is in " + shown(name) + ", expected a file of its folder");
      }
      files.insert(name);
    }
  } catch (const nlohmann::json::exception& error) {
    refuse(shown(error.what()));
  }
  return files;
}

}  // namespace

TensorFiles::TensorFiles(const std::string& path) : path_(path) {
  const bool is_folder = fs::is_directory(path);
  folder_ = is_folder ? path : fs::path(path).parent_path().string();
  if (!is_folder && !path.ends_with(".json")) {
    add(path);
  } else if (!is_folder) {
    add_indexed(path);
  } else if (const fs::path one = fs::path(path) / kOne; fs::exists(one)) {
    add(one.string());
  } else if (const fs::path index = fs::path(path) / kIndex; fs::exists(index)) {
    add_indexed(index.string());
  } else {
    fail(ExitCode::file, "{}: has neither {} nor {}", path, kOne, kIndex);
  }
}

void TensorFiles::add(const std::string& path) {
  const SafetensorsFile& file = *files_.emplace_back(std::make_unique<SafetensorsFile>(path));
  for (const SafeTensor& tensor : file.tensors()) {
    const auto [other, added] = tensors_.try_emplace(tensor.name, PlacedTensor{&file, &tensor});
    if (!added) {
      fail(ExitCode::file, "{}: {} is in {}, too", path, shown(tensor.name),
           other->second.file->path());
    }
  }
}

void TensorFiles::add_indexed(const std::string& index) {
  for (const std::string& file : files_of(index)) {
    add((fs::path(folder_) / file).string());
  }
}

}  // namespace hidup
