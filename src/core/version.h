// The sources and libraries of this binary, which every timing file records.
#pragma once

#include <string>

namespace hidup {

const char* program_version();
const char* git_commit();  // 40 hex digits, or "unknown" outside a git checkout
bool git_dirty();          // tracked files differed from that commit

// A library that the binary uses. A version is numbers with dots, empty where the library tells
// none.
struct LibraryVersion {
  std::string name;
  std::string compiled;  // version of the headers
  std::string loaded;    // version at run time
};

}  // namespace hidup
