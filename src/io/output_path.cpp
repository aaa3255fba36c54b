#include "io/output_path.h"

#include <filesystem>
#include <system_error>

#include "core/check.h"

namespace hidup {

namespace fs = std::filesystem;

void prepare_output(const std::string& path, bool overwrite, std::string_view option) {
  std::error_code error;
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty()) {
    fs::create_directories(parent, error);
    if (error) {
      fail(ExitCode::file, "{}: cannot create the folder {}: {}", path, parent.string(),
           error.message());
    }
  }
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return;  // creating the file reports what else may be wrong with it
  }
  if (!fs::is_regular_file(status)) {
    fail(ExitCode::file, "{}: is {}, where {} needs a regular file", path,
         fs::is_directory(status) ? "a folder" : "not a regular file", option);
  }
  if (!overwrite) {
    fail(ExitCode::file, "{}: exists; pass --overwrite or another {}", path, option);
  }
}

}  // namespace hidup
