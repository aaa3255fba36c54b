// Files that are complete before they take their names.
#pragma once

#include <string>
#include <string_view>

namespace hidup {

// Returns the path to which `path` leads: follows symbolic links of the last component, also to
// files that do not exist yet. Throws Error(file) for links that lead in a circle.
std::string follow_links(const std::string& path);

// A file that has a temporary name in its folder until it is complete. Nobody sees an incomplete
// file under the final name, and an older file of that name stays until then.
class NewFile {
 public:
  // Creates an empty file under an unused name, in the folder to which `path` leads. Throws
  // Error(file) "PATH: REASON", as the other members do.
  explicit NewFile(const std::string& path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  // Removes a file that has not taken its name.
  ~NewFile();

  const std::string& name() const { return name_; }          // `path`, for messages
  const std::string& location() const { return location_; }  // where the file lies now

  void write(std::string_view text);
  // Flushes the content to the disk.
  void flush() const;

  // Flushes the content to the disk, gives the file its name in one step, and flushes the name. A
  // file of that name is replaced, or refused without `overwrite`; its readers keep the old one.
  void take_name(bool overwrite);

  // Checks that a file that took its name still has it. Throws where it was deleted, moved or
  // replaced, after copying a file without any name to "NAME.kept". The message says where the
  // content is.
  void check_name() const;

 private:
  // Both return the place of the content, for messages.
  std::string present_name() const;
  std::string keep_copy() const;

  std::string name_;
  std::string place_;     // path of the complete file
  std::string location_;  // place_ once the name is taken
  int descriptor_ = -1;
};

// Writes a file with this text by a NewFile.
void write_text_file(const std::string& path, std::string_view text, bool overwrite);

}  // namespace hidup
