// Checks of files that a user names as outputs.
#pragma once

#include <string>
#include <vector>

namespace hidup {

// A file that a command reads or writes.
struct NamedFile {
  std::string name;  // for messages: "--out", "the model deck"
  std::string path;  // empty: no file
};

// Checks outputs and changes nothing. Throws Error(usage) where an output is, through whatever
// links, another output, an input, standard output or standard error; Error(file) where it is not a
// regular file, or exists without `overwrite`. Names of outputs are options.
void check_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs,
                   bool overwrite);

// Checks outputs likewise, creates missing parent folders and tries to create a file in them.
// Existing files stay. Throws Error(file) where that fails.
void prepare_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs,
                     bool overwrite);

}  // namespace hidup
