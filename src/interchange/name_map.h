// How others call and lay out the parameters of our models.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace hidup {

// How theirs has the elements of ours.
enum class TheirLayout { same, vector, matrix, transposed };

// A parameter of a family, for every layer where its name has "{}".
struct NameRow {
  std::string_view ours;
  std::string_view theirs;
  // same: of the same shape; vector: all elements in one dimension; matrix: [rows, columns];
  // transposed: [columns, rows].
  TheirLayout layout = TheirLayout::same;
  int rows = 1;         // of a matrix: the leading dimensions of ours that are its rows
  bool longer = false;  // theirs may have more rows, of which ours are the first
};

// A tensor of theirs that repeats another one.
struct NameCopy {
  std::string_view theirs;
  std::string_view of;
};

struct NameMap {
  std::string_view name;    // "gpt2", "llama"
  std::string_view family;  // of our models; empty: all
  std::string_view prefix;  // of their names, which files of the model without its head lack
  std::span<const NameRow> rows;
  std::span<const NameCopy> copies;
  std::span<const std::string_view> ignored;  // theirs that hold no parameter
};

// Null: there is none of that name. "hidup": our own names and shapes, no rows.
const NameMap* find_name_map(std::string_view name);
std::vector<std::string> name_maps();

// Whether a tensor of that name holds no parameter.
bool is_ignored(const NameMap& map, std::string_view theirs);

// How theirs is called, and how its elements are ours.
struct TheirTensor {
  std::string name;
  Shape shape;       // what it must have
  int64_t rows = 1;  // of ours as a matrix; its columns are the rest
  bool transposed = false;
  bool longer = false;  // it may have more rows
};
// Throws Error(usage) where the map has no such parameter.
TheirTensor their_tensor(const NameMap& map, const std::string& ours, const Shape& shape);

}  // namespace hidup
