// Keys of the cluster deck, for keys.cpp.
#pragma once

#include <vector>

#include "deck/keys.h"

namespace hidup {

std::vector<Key> cluster_keys();

}  // namespace hidup
