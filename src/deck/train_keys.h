// Keys of the section train, for keys.cpp.
#pragma once

#include <vector>

#include "deck/keys.h"

namespace hidup {

std::vector<Key> train_keys();
std::vector<Key> checkpoint_keys();

}  // namespace hidup
