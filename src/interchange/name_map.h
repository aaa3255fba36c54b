// Names and layouts that other programs give to the parameters of our models ("theirs" and "ours").
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace hidup {

// The order of their elements relative to ours.
enum class TheirLayout { same, vector, matrix, transposed };

// A parameter of a family; where its name has "{}", one for every layer. Where `theirs` also has
// "{expert}", they have a tensor for each index of our first dimension, and `layout` is of the
// rest.
struct NameRow {
  std::string_view ours;
  std::string_view theirs;
  // vector: all elements in one dimension; matrix: [rows, columns]; transposed: [columns, rows].
  TheirLayout layout = TheirLayout::same;
  int rows = 1;         // leading dimensions of ours that are a matrix's rows
  bool longer = false;  // theirs may have more rows, the first of which are ours
};

// A tensor of theirs that repeats another one.
struct NameCopy {
  std::string_view theirs;
  std::string_view of;
};

struct NameMap {
  std::string_view name;    // "gpt2", "llama" and so on
  std::string_view family;  // family of our models; empty: all
  std::string_view prefix;  // start of their names, missing without the head
  std::string_view mark;    // a tensor that tells these names from others of the family
  std::span<const NameRow> rows;
  std::span<const NameCopy> copies;
  std::span<const std::string_view> ignored;  // their tensors that hold no parameter
};

// Returns null where no map has that name. "hidup" has our own names and shapes, and no rows.
const NameMap* find_name_map(std::string_view name);
std::vector<std::string> name_maps();

// Returns true if a tensor of that name holds no parameter.
bool is_ignored(const NameMap& map, std::string_view theirs);

// Their name, and the order of their elements.
struct TheirTensor {
  std::string name;
  Shape shape;       // expected shape
  int64_t rows = 1;  // rows of ours as a matrix; the rest is columns
  bool transposed = false;
  bool longer = false;  // may have more rows
  int64_t part = -1;    // the index of our first dimension that it holds; -1: it holds all
};
// Returns their tensors for our parameter: one, or one for each index of its first dimension.
// Throws Error(usage) where the map has no such parameter.
std::vector<TheirTensor> their_tensors(const NameMap& map, const std::string& ours,
                                       const Shape& shape);

// Returns true if the name is the pattern with a number in place of "{}".
bool is_named(std::string_view pattern, std::string_view name);

}  // namespace hidup
