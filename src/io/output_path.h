// What holds for every file that a user names as an output.
#pragma once

#include <string>
#include <string_view>

namespace hidup {

// Makes way for the output file `path`, which the command-line option `option`
// named: creates missing parent folders, refuses an existing file unless
// `overwrite`, and anything that is not a regular file always. An existing file
// is left in place. Throws Error(file).
void prepare_output(const std::string& path, bool overwrite, std::string_view option);

}  // namespace hidup
