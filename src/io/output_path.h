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

// Throws Error(usage) where an output is another one, too, or an input, or where standard output or
// standard error go, whatever links lead to it; Error(file) where it is not a regular file, or
// exists without `overwrite`. Names of outputs are options. Changes nothing.
void check_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs,
                   bool overwrite);

// The same, and makes way for the outputs: creates missing parent folders and tries to create a
// file in them. Existing files are left in place. Throws Error(file) where that fails.
void prepare_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs,
                     bool overwrite);

}  // namespace hidup
