#include "core/name_pattern.h"

#include <algorithm>

namespace hidup {

std::string pattern_of(const std::string& name) {
  std::string pattern;
  size_t begin = 0;
  while (begin <= name.size()) {
    const size_t end = std::min(name.find_first_of(".,", begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    pattern += (begin == 0 ? "" : name.substr(begin - 1, 1)) + (number ? "*" : part);
    begin = end + 1;
  }
  return pattern;
}

}  // namespace hidup
