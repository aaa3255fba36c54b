#include "interchange/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/text.h"

namespace hidup {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little);

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeader = 100 << 20;  // limit of the format's own library
constexpr int kMaxDepth = 3;               // header, tensor, list of numbers
constexpr size_t kMaxDims = 32;
constexpr const char* kMetadata = "__metadata__";

struct ElementType {
  std::string_view name;
  int64_t bytes;
  std::optional<DType> dtype = std::nullopt;
};
constexpr ElementType kTypes[] = {
    {"F32", 4, DType::f32},
    {"F16", 2, DType::f16},
    {"BF16", 2, DType::bf16},
    {"F64", 8},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"I64", 8},
    {"I32", 4},
    {"I16", 2},
    {"I8", 1},
    {"U64", 8},
    {"U32", 4},
    {"U16", 2},
    {"U8", 1},
    {"BOOL", 1},
};

class HeaderReader {
 public:
  HeaderReader(const OpenFile& file, int64_t data_begin)
      : file_(file), data_begin_(data_begin), data_bytes_(file.bytes() - data_begin) {}

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    fail(ExitCode::file, "{}: {}", file_.name(), fmt::format(text, std::forward<Args>(args)...));
  }

  Json parse(const std::string& text) const {
    std::set<std::string> names;
    const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
      using Event = Json::parse_event_t;
      if ((event == Event::object_start || event == Event::array_start) && depth >= kMaxDepth) {
        refuse("the header is nested more than {} deep", kMaxDepth);
      }
      if (event == Event::key && depth == 1 && !names.insert(parsed.get<std::string>()).second) {
        refuse("the header has {} twice", shown(parsed.get<std::string>()));
      }
      return true;
    };
    try {
      Json header = Json::parse(text, check);
      if (!header.is_object()) {
        refuse("the header is {}, expected an object", header.type_name());
      }
      return header;
    } catch (const Json::exception& error) {
      refuse("the header is no JSON: {}", shown(error.what()));
    }
  }

  SafeTensor tensor(const std::string& name, const Json& entry) const {
    if (!entry.is_object()) {
      refuse("{}: expected an object, found {}", shown(name), entry.type_name());
    }
    for (const auto& [key, value] : entry.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        refuse("{}: unknown key {}", shown(name), shown(key));
      }
    }
    const ElementType& type = type_of(name, entry);
    SafeTensor tensor{.name = name, .dtype = type.dtype};
    const std::vector<int64_t> shape = numbers(name, entry, "shape", kMaxDims);
    const std::vector<int64_t> offsets = numbers(name, entry, "data_offsets", 2);
    if (offsets.size() != 2) {
      refuse("{}: data_offsets has {} numbers, expected 2", shown(name), offsets.size());
    }
    tensor.shape = Shape(shape.begin(), shape.end());
    if (offsets[0] > offsets[1] || offsets[1] > data_bytes_) {
      refuse("{}: its bytes are {} to {} of {}", shown(name), offsets[0], offsets[1], data_bytes_);
    }
    tensor.begin = data_begin_ + offsets[0];
    tensor.bytes = offsets[1] - offsets[0];
    const std::optional<int64_t> expected = product(type.bytes, tensor.shape);
    if (!expected || *expected != tensor.bytes) {
      refuse("{}: {} elements of {} do not take {} bytes", shown(name), to_string(tensor.shape),
             type.name, tensor.bytes);
    }
    return tensor;
  }

  std::map<std::string, std::string> metadata(const Json& entry) const {
    if (!entry.is_object()) {
      refuse("{}: expected an object, found {}", kMetadata, entry.type_name());
    }
    std::map<std::string, std::string> found;
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) {
        refuse("{}: {} is {}, expected text", kMetadata, shown(key), value.type_name());
      }
      found[key] = value.get<std::string>();
    }
    return found;
  }

 private:
  const ElementType& type_of(const std::string& name, const Json& entry) const {
    const auto given = entry.find("dtype");
    if (given == entry.end() || !given->is_string()) {
      refuse("{}: has no dtype", shown(name));
    }
    const auto* const found =
        std::ranges::find(kTypes, given->get<std::string>(), &ElementType::name);
    if (found == std::end(kTypes)) {
      refuse("{}: the format has no dtype {}", shown(name), shown(given->get<std::string>()));
    }
    return *found;
  }

  // Reads a list of numbers that are not negative.
  std::vector<int64_t> numbers(const std::string& name, const Json& entry, const char* key,
                               size_t most) const {
    const auto given = entry.find(key);
    if (given == entry.end() || !given->is_array() || given->size() > most) {
      refuse("{}: {}: expected a list of at most {} numbers", shown(name), key, most);
    }
    std::vector<int64_t> found;
    for (const Json& number : *given) {
      if (!number.is_number_unsigned() ||
          number.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
        refuse("{}: {}: expected whole numbers from 0 on", shown(name), key);
      }
      found.push_back(number.get<int64_t>());
    }
    return found;
  }

  // Returns nothing for more bytes than a file can have.
  static std::optional<int64_t> product(int64_t bytes, const Shape& shape) {
    for (const int64_t extent : shape) {
      if (extent > 0 && bytes > std::numeric_limits<int64_t>::max() / extent) {
        return std::nullopt;
      }
      bytes *= extent;
    }
    return bytes;
  }

  const OpenFile& file_;
  int64_t data_begin_;
  int64_t data_bytes_;
};

int64_t length_of_header(const OpenFile& file) {
  uint64_t length = 0;
  if (file.bytes() < kLengthBytes) {
    fail(ExitCode::file, "{}: no safetensors file: it has {} bytes", file.name(), file.bytes());
  }
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  const auto rest = static_cast<uint64_t>(file.bytes() - kLengthBytes);
  if (length > rest || length > uint64_t{kMaxHeader}) {
    fail(ExitCode::file,
         "{}: no safetensors file, or truncated: a header of {} bytes, in a file of {}",
         file.name(), length, file.bytes());
  }
  return static_cast<int64_t>(length);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(std::make_shared<const OpenFile>(path, path, OpenFile::For::reading)) {
  const int64_t length = length_of_header(*file_);
  std::string text(static_cast<size_t>(length), '\0');
  file_->read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  const HeaderReader reader(*file_, kLengthBytes + length);
  const Json header = reader.parse(text);
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      metadata_ = reader.metadata(entry);
    } else {
      tensors_.push_back(reader.tensor(name, entry));
    }
  }
  std::ranges::stable_sort(tensors_, {}, &SafeTensor::begin);
  int64_t end = kLengthBytes + length;
  for (const SafeTensor& tensor : tensors_) {
    if (tensor.begin != end) {
      reader.refuse("{}: begins at byte {}, but what is before it ends at {}", shown(tensor.name),
                    tensor.begin, end);
    }
    end += tensor.bytes;
  }
  if (end != file_->bytes()) {
    reader.refuse("its tensors end at byte {}, the file at {}", end, file_->bytes());
  }
}

std::string safetensors_header(std::vector<SafeTensor>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) {
    header[kMetadata] = metadata;
  }
  int64_t offset = 0;
  for (SafeTensor& tensor : tensors) {
    const auto* const type = std::ranges::find(kTypes, tensor.dtype, &ElementType::dtype);
    check(tensor.dtype && type != std::end(kTypes), "{} has no type of safetensors", tensor.name);
    tensor.bytes = elements(tensor.shape) * type->bytes;
    tensor.begin = offset;
    header[tensor.name] = {
        {"dtype", type->name},
        {"shape", std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
        {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  const auto length = static_cast<uint64_t>(text.size());
  for (SafeTensor& tensor : tensors) {
    tensor.begin += kLengthBytes + static_cast<int64_t>(length);
  }
  std::string begin(kLengthBytes, '\0');
  std::memcpy(begin.data(), &length, sizeof length);
  return begin + text;
}

}  // namespace hidup
