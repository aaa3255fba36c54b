#include "io/output_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "core/check.h"
#include "core/file.h"
#include "core/new_file.h"

namespace hidup {
namespace {

namespace fs = std::filesystem;

// An identity equal for all paths to a file: an existing file's number, else the path without
// links.
struct Identity {
  dev_t device = 0;
  ino_t number = 0;
  std::string path;

  bool operator==(const Identity&) const = default;
};

Identity identity_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, ""};
}

Identity identity_of(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0) {
    return identity_of(status);
  }
  std::error_code error;
  const fs::path place = fs::path(working_folder()) / follow_links(path);
  const fs::path folder = fs::weakly_canonical(place.parent_path(), error);
  return {0, 0, (error ? place.parent_path() : folder) / place.filename()};
}

// Throws where `output` is one of the others.
void check_apart(const NamedFile& output, const Identity& identity,
                 const std::vector<NamedFile>& others) {
  for (const NamedFile& other : others) {
    if (!other.path.empty() && identity_of(other.path) == identity) {
      fail(ExitCode::usage, "{} {} is the same file as {} {}", output.name, output.path, other.name,
           other.path);
    }
  }
}

// Throws where the shell sends standard output or error to this file.
void check_apart_from_streams(const NamedFile& output, const Identity& identity) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status = {};
    if (fstat(stream, &status) == 0 && S_ISREG(status.st_mode) && identity_of(status) == identity) {
      fail(ExitCode::usage, "{} {} is the same file as standard {}", output.name, output.path,
           stream == STDOUT_FILENO ? "output" : "error");
    }
  }
}

// Throws where an existing file may not be replaced.
void check_existing(const NamedFile& output, bool overwrite) {
  const std::string& path = output.path;
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    return;
  }
  if (!S_ISREG(status.st_mode)) {
    fail(ExitCode::file, "{}: is {}, where {} needs a regular file", path,
         kind_of_file(status.st_mode), output.name);
  }
  if (!overwrite) {
    fail(ExitCode::file, "{}: exists; pass --overwrite or another {}", path, output.name);
  }
}

}  // namespace

void check_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs,
                   bool overwrite) {
  std::vector<NamedFile> others = inputs;
  for (const NamedFile& output : outputs) {
    if (!output.path.empty()) {
      const Identity identity = identity_of(output.path);
      check_apart(output, identity, others);
      check_apart_from_streams(output, identity);
      check_existing(output, overwrite);
      others.push_back(output);
    }
  }
}

void prepare_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs,
                     bool overwrite) {
  check_outputs(outputs, inputs, overwrite);
  for (const NamedFile& output : outputs) {
    if (output.path.empty()) {
      continue;
    }
    const fs::path parent = fs::path(output.path).parent_path();
    std::error_code error;
    if (!parent.empty()) {
      fs::create_directories(parent, error);
    }
    if (error) {
      fail(ExitCode::file, "{}: cannot create the folder {}: {}", output.path, parent.string(),
           error.message());
    }
    const NewFile trial(output.path);  // fails now, not after hours of work
  }
}

}  // namespace hidup
