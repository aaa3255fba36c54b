// What this binary was built from; goes into every timing file.
#pragma once

namespace hidup {

const char* program_version();
const char* git_commit();  // 40 hex digits, or "unknown" outside a git checkout
bool git_dirty();          // tracked files differed from that commit

}  // namespace hidup
