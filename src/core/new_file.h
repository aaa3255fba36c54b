// Files that are complete before they take their names.
#pragma once

#include <string>
#include <string_view>

namespace hidup {

// Where a file that is written to `path` lies: symbolic links of the last component are followed,
// also to what does not exist yet. Throws Error(file) for links that lead in a circle.
std::string follow_links(const std::string& path);

// A file that lies beside its place until it is complete: nobody sees a part of it under its name,
// and an older file of that name stays until then.
class NewFile {
 public:
  // Creates an empty file of a name that nothing else has, in the folder where `path` leads to.
  // Throws Error(file), as the other members do: "PATH: REASON".
  explicit NewFile(const std::string& path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  // Removes the file where it has not taken its name.
  ~NewFile();

  const std::string& name() const { return name_; }          // `path`, for messages
  const std::string& location() const { return location_; }  // where the file lies now

  void write(std::string_view text);
  // Brings the content to the disk.
  void flush() const;

  // Brings the content to the disk, then the file to its name at once, and the name to the disk. A
  // file that has the name is replaced, or refused without `overwrite`; its readers keep the old
  // one.
  void take_name(bool overwrite);

  // For a file that has its name and was written since: throws where somebody took the name away.
  // Where no other name is left, the content is kept beside as "NAME.kept". The message says what
  // happened, and where the content is.
  void check_name() const;

 private:
  // Both: where the content is, for messages.
  std::string present_name() const;
  std::string keep_copy() const;

  std::string name_;
  std::string place_;     // of the complete file
  std::string location_;  // place_ once the name is taken
  int descriptor_ = -1;
};

// A NewFile with this text.
void write_text_file(const std::string& path, std::string_view text, bool overwrite);

}  // namespace hidup
