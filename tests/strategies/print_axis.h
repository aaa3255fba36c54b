// An axis in the name of a test.
#pragma once

#include <ostream>

#include "sharding/placement.h"

namespace hidup {

inline void PrintTo(const Axis& axis, std::ostream* stream) {
  *stream << axis.name << " " << axis.size;
}

}  // namespace hidup
