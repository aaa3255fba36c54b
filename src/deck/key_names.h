// The names of keys as paths: "section.group.key", and "list[1].key" for a key of the
// second item of a list, whose record is named "list[].key".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "deck/deck.h"

namespace hidup {

struct MeshAxis;

// Removes indices: "cluster.mesh[1].size" -> "cluster.mesh[].size".
std::string record_name(std::string_view name);

// Returns the group of a name: "model.layers" -> "model"; "model" -> "".
std::string_view parent_of(std::string_view name);

// Returns the last part of a name: "model.layers" -> "layers".
std::string_view last_part(std::string_view name);

// Returns true if `name` is `owner`, or a key or an item somewhere below it.
bool belongs_to(std::string_view name, std::string_view owner);

// Returns true if the record is a key of the items of a list.
bool is_of_item(std::string_view record);

// Returns true if some record's name starts with `name` and a dot.
bool is_group(std::string_view name);

// Returns the last parts of the names one level below a group; the sections for "".
std::vector<std::string> children_of(std::string_view group);

// Returns the key or group that an unknown name may stand for, or "".
std::string similar_name(std::string_view name);

// Returns the message for a name in an override that is not the whole name of a key.
std::string explain_unknown(std::string_view name);

// A key of one mesh axis.
struct AxisKey {
  std::string name;  // "cluster.mesh[1].size"
  size_t item = 0;   // 1
};

// Returns true if an override names a key of one axis, as "cluster.mesh.gpu.size" does.
bool is_axis_key(std::string_view name);

// Returns the key of an axis that the name means. Throws Error(usage) where no axis of `axes` has
// that name, or an axis has no such key.
AxisKey find_axis_key(std::string_view name, const std::vector<MeshAxis>& axes);

}  // namespace hidup
