// What holds for every file that a user names as an output.
#pragma once

#include <string>
#include <vector>

namespace hidup {

// A file that a command reads or writes.
struct NamedFile {
  std::string name;  // for messages: "--out", "the model deck"
  std::string path;  // empty: there is none
};

// Makes way for the outputs of a command, whose names are options: creates missing parent folders
// and tries to create a file in them; refuses what is not a regular file, and an existing file
// unless `overwrite`. Existing files are left in place. Throws Error(file) there.
//
// Throws Error(usage) where an output is another one, too, or an input, or where standard output or
// standard error go, whatever links lead to it.
void prepare_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs,
                     bool overwrite);

}  // namespace hidup
