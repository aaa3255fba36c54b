#include "interchange/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "checkpoint/runs.h"
#include "checkpoint/stretch_reader.h"
#include "core/check.h"
#include "core/text.h"

namespace hidup {
namespace {

constexpr size_t kMostNamed = 8;  // tensors in a message

// Returns dimensions first .. end of a box.
Region dimensions(const Region& box, int first, int end) {
  Region part{.dims = end - first};
  std::copy(box.start + first, box.start + end, part.start);
  std::copy(box.extent + first, box.extent + end, part.extent);
  std::copy(box.global + first, box.global + end, part.global);
  return part;
}

// Returns the number of leading dimensions that are the rows of the box's tensor as a matrix.
int leading_dims(const Region& box, int64_t rows) {
  int dims = 0;
  for (int64_t product = 1; product < rows || dims == 0; ++dims) {
    product *= box.global[dims];
  }
  return dims;
}

// Transposes: to[column * stride + row] = from[row * columns + column].
template <typename Element>
void turn_elements(const std::byte* from, size_t rows, size_t columns, std::byte* to,
                   size_t stride) {
  constexpr size_t kTile = 32;  // rows and columns that stay in the cache
  const auto* source = reinterpret_cast<const Element*>(from);
  auto* target = reinterpret_cast<Element*>(to);
  for (size_t row0 = 0; row0 < rows; row0 += kTile) {
    for (size_t column0 = 0; column0 < columns; column0 += kTile) {
      for (size_t column = column0; column < std::min(columns, column0 + kTile); ++column) {
        for (size_t row = row0; row < std::min(rows, row0 + kTile); ++row) {
          target[column * stride + row] = source[row * columns + column];
        }
      }
    }
  }
}

void turn(const std::byte* from, size_t rows, size_t columns, std::byte* to, size_t stride,
          DType dtype) {
  if (size_of(dtype) == 2) {
    turn_elements<uint16_t>(from, rows, columns, to, stride);
  } else {
    check(size_of(dtype) == 4, "elements of {}", name_of(dtype));
    turn_elements<uint32_t>(from, rows, columns, to, stride);
  }
}

// Reads a box of a tensor with columns as rows. Several rows are read and transposed at once.
std::vector<std::byte> read_transposed(const TensorPart& source, const Region& box) {
  const SafeTensor& tensor = *source.at.tensor;
  const int split = leading_dims(box, source.theirs.rows);
  const Region rows = dimensions(box, 0, split);
  const Region columns = dimensions(box, split, box.dims);
  const DType dtype = tensor.dtype.value();
  const auto size = static_cast<size_t>(size_of(dtype));
  const auto height = static_cast<size_t>(rows.elements());
  const auto width = static_cast<size_t>(columns.elements());
  constexpr size_t kAtOnce = 32;
  std::vector<std::byte> theirs(kAtOnce * height * size);
  std::vector<std::byte> result(height * width * size);
  StretchReader reader(source.at.file->bytes(), tensor.begin + tensor.bytes);
  for (size_t first = 0; first < width; first += kAtOnce) {
    const size_t count = std::min(kAtOnce, width - first);
    for (size_t i = 0; i < count; ++i) {
      const int64_t begin =
          columns.global_index(static_cast<int64_t>(first + i)) * source.theirs.rows;
      for_each_run(rows, 0, rows.elements(), [&](int64_t row, int64_t local, int64_t length) {
        reader.read(tensor.begin + (begin + row) * static_cast<int64_t>(size),
                    std::span(theirs).subspan((i * height + static_cast<size_t>(local)) * size,
                                              static_cast<size_t>(length) * size));
      });
    }
    turn(theirs.data(), count, height, &result[first * size], width, dtype);
  }
  return result;
}

bool same_content(const PlacedTensor& one, const PlacedTensor& other) {
  if (one.tensor->shape != other.tensor->shape || one.tensor->dtype != other.tensor->dtype) {
    return false;
  }
  constexpr int64_t kPiece = 1 << 20;
  std::vector<std::byte> first(kPiece);
  std::vector<std::byte> second(kPiece);
  for (int64_t at = 0; at < one.tensor->bytes; at += kPiece) {
    const auto count = static_cast<size_t>(std::min(kPiece, one.tensor->bytes - at));
    const auto mine = std::span(first).first(count);
    const auto others = std::span(second).first(count);
    one.file->bytes().read(one.tensor->begin + at, mine);
    other.file->bytes().read(other.tensor->begin + at, others);
    if (!std::ranges::equal(mine, others)) {
      return false;
    }
  }
  return true;
}

// Finds tensors, also in files of a model without its head, and collects problems.
class Matcher {
 public:
  Matcher(const TensorFiles& files, const NameMap& names) : files_(files), names_(names) {}

  // Returns null where there is none.
  const PlacedTensor* find(std::string_view name) {
    for (const std::string_view tried : {name, without_prefix(name)}) {
      const auto found = files_.tensors().find(tried);
      if (found != files_.tensors().end()) {
        used_.insert(found->first);
        return &found->second;
      }
    }
    return nullptr;
  }

  void add(const std::string& ours, const Shape& shape) {
    TensorSource source;
    for (const TheirTensor& theirs : their_tensors(names_, ours, shape)) {
      if (const PlacedTensor* const found = find(theirs.name); found != nullptr) {
        check_part(*found, theirs, source.parts);
        source.parts.push_back({*found, theirs});
      } else {
        missing_.push_back(shown(theirs.name));
      }
    }
    sources_[ours] = std::move(source);
  }

  // Checks shape and type, the latter against those of the parameter's first part.
  void check_part(const PlacedTensor& part, const TheirTensor& theirs,
                  const std::vector<TensorPart>& before) {
    const auto* const found = &part;
    Shape given = found->tensor->shape;
    if (theirs.longer && !given.empty() && given[0] > theirs.shape[0]) {
      given[0] = theirs.shape[0];
    }
    if (!found->tensor->dtype) {
      misshapen_.push_back(fmt::format("{} is not of type F32, F16 or BF16", shown(theirs.name)));
    } else if (given != theirs.shape) {
      misshapen_.push_back(fmt::format("{} is {}, but the model needs {}", shown(theirs.name),
                                       to_string(found->tensor->shape), to_string(theirs.shape)));
    } else if (!before.empty() && before[0].at.tensor->dtype != found->tensor->dtype) {
      misshapen_.push_back(fmt::format("{} is of another type than {}", shown(theirs.name),
                                       shown(before[0].theirs.name)));
    }
  }

  std::map<std::string, TensorSource> finish() {
    for (const NameCopy& copy : names_.copies) {
      check_copy(copy);
    }
    std::vector<std::string> additional;
    for (const auto& [name, place] : files_.tensors()) {
      if (!used_.contains(name) && !is_ignored(names_, name)) {
        additional.push_back(shown(name));
      }
    }
    std::vector<std::string> wrong;
    for (const auto& [what, which] :
         {std::pair("missing: ", &missing_), std::pair("additional: ", &additional),
          std::pair("", &misshapen_)}) {
      if (!which->empty()) {
        wrong.push_back(what + listed(*which));
      }
    }
    if (!wrong.empty()) {
      fail(ExitCode::usage, "{}: its tensors are not those of the model, by the names of {}: {}",
           files_.path(), names_.name, fmt::join(wrong, "; "));
    }
    return std::move(sources_);
  }

 private:
  std::string_view without_prefix(std::string_view name) const {
    return name.starts_with(names_.prefix) ? name.substr(names_.prefix.size()) : name;
  }

  // Checks a copy that is no parameter of this model.
  void check_copy(const NameCopy& copy) {
    if (used_.contains(std::string(copy.theirs))) {
      return;
    }
    const PlacedTensor* const repeated = find(copy.theirs);
    const PlacedTensor* const original = find(copy.of);
    if (repeated != nullptr && original != nullptr && !same_content(*repeated, *original)) {
      misshapen_.push_back(fmt::format("{} differs from {}, which the model has in both places",
                                       copy.theirs, copy.of));
    }
  }

  static std::string listed(const std::vector<std::string>& names) {
    const size_t count = std::min(names.size(), kMostNamed);
    return fmt::format(
        "{}{}", fmt::join(names.begin(), names.begin() + count, ", "),
        count < names.size() ? fmt::format(" and {} more", names.size() - count) : "");
  }

  const TensorFiles& files_;
  const NameMap& names_;
  std::set<std::string> used_;
  std::map<std::string, TensorSource> sources_;
  std::vector<std::string> missing_;
  std::vector<std::string> misshapen_;
};

}  // namespace

namespace {

bool has_mark(const TensorFiles& files, const NameMap& map) {
  return map.mark.empty() || std::ranges::any_of(files.tensors(), [&](const auto& place) {
           return is_named(map.mark, place.first) ||
                  is_named(map.mark.substr(map.prefix.size()), place.first);
         });
}

}  // namespace

const NameMap& guess_names(const TensorFiles& files) {
  for (const std::string& name : name_maps()) {
    const NameMap& map = *find_name_map(name);
    if (!map.rows.empty() && Matcher(files, map).find(map.rows.front().theirs) != nullptr &&
        has_mark(files, map)) {
      return map;
    }
  }
  return *find_name_map("hidup");
}

std::map<std::string, TensorSource> find_sources(const TensorFiles& files, const NameMap& names,
                                                 const Graph& graph) {
  Matcher matcher(files, names);
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Tensor::Role::parameter) {
      matcher.add(tensor.name, tensor.shape);
    }
  }
  return matcher.finish();
}

std::vector<std::byte> as_theirs(const TheirTensor& theirs, std::vector<std::byte> ours,
                                 DType dtype) {
  if (!theirs.transposed) {
    return ours;
  }
  std::vector<std::byte> turned(ours.size());
  const auto rows = static_cast<size_t>(theirs.rows);
  const size_t columns = ours.size() / static_cast<size_t>(size_of(dtype)) / rows;
  turn(ours.data(), rows, columns, turned.data(), rows, dtype);
  return turned;
}

namespace {

std::vector<std::byte> read_part(const TensorPart& source, const Region& box) {
  if (source.theirs.transposed) {
    return read_transposed(source, box);
  }
  const SafeTensor& tensor = *source.at.tensor;
  const int64_t size = size_of(tensor.dtype.value());
  std::vector<std::byte> result(static_cast<size_t>(box.elements() * size));
  StretchReader reader(source.at.file->bytes(), tensor.begin + tensor.bytes);
  for_each_run(box, 0, box.elements(), [&](int64_t global, int64_t local, int64_t count) {
    reader.read(tensor.begin + global * size,
                std::span(result).subspan(static_cast<size_t>(local * size),
                                          static_cast<size_t>(count * size)));
  });
  return result;
}

}  // namespace

std::vector<std::byte> read_box(const TensorSource& source, const Region& box) {
  if (source.parts[0].theirs.part < 0) {
    return read_part(source.parts[0], box);
  }
  std::vector<std::byte> all;
  for (int64_t i = 0; i < box.extent[0]; ++i) {
    const std::vector<std::byte> part = read_part(
        source.parts.at(static_cast<size_t>(box.start[0] + i)), dimensions(box, 1, box.dims));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace hidup
