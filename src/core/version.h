// What this binary was built from; goes into every timing file.
#pragma once

#include <string>

namespace hidup {

const char* program_version();
const char* git_commit();  // 40 hex digits, or "unknown" outside a git checkout
bool git_dirty();          // tracked files differed from that commit

// A library that the binary stands on. A version is numbers with dots between them, or empty where
// the library does not tell it.
struct LibraryVersion {
  std::string name;
  std::string compiled;  // whose headers were compiled against
  std::string loaded;    // that runs
};

}  // namespace hidup
