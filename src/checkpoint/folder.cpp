#include "checkpoint/folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <system_error>

#include "checkpoint/checkpoint.h"
#include "checkpoint/frame.h"
#include "comm/collective.h"
#include "core/file.h"
#include "core/new_file.h"
#include "core/text.h"

namespace hidup {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnding = ".ckpt.h5";

// Returns files in the folder whose names match `pattern`, in the order of names.
std::vector<std::string> files_like(const std::string& folder, const std::string& pattern) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (matches(pattern, entry->path().filename().string())) {
      found.push_back(entry->path());
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    fail(ExitCode::file, "{}: cannot list the folder: {}", folder,
         lower_case_start(error.message()));
  }
  std::ranges::sort(found);
  return found;
}

// Returns true if a file with this text exists.
bool sees(const std::string& path, const std::string& text) {
  try {
    return read_text_file(path, "file", kUserBlock) == text;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  return fmt::format("step-{:08}{}", step, kEnding);
}

std::string run_name(const std::string& folder, const std::string& timing_file) {
  std::error_code error;  // an unresolvable path stays unchanged
  const fs::path from = fs::weakly_canonical(fs::absolute(folder, error), error);
  const fs::path to = fs::weakly_canonical(fs::absolute(timing_file, error), error);
  const std::string name = error ? timing_file : to.lexically_proximate(from).string();
  return name.substr(name.size() - std::min(name.size(), kRunBytes));
}

std::string file_of_run(const std::string& folder, const std::string& run) {
  return (fs::path(folder) / run).lexically_normal().string();
}

FolderContent list_checkpoints(const std::string& folder) {
  FolderContent content;
  for (const std::string& path : files_like(folder, fmt::format("*{}", kEnding))) {
    try {
      const OpenFile file(path, path, OpenFile::For::reading);
      const Frame frame = read_user_block(file);
      content.complete.push_back({path, frame.step, frame.run});
    } catch (const Error& error) {
      content.damaged.push_back({error.what()});
    }
  }
  std::ranges::stable_sort(content.complete, std::greater<>(), &FoundCheckpoint::step);
  return content;
}

std::vector<FoundCheckpoint> checkpoints_of(const std::string& folder, const std::string& run) {
  std::vector<FoundCheckpoint> found = list_checkpoints(folder).complete;
  std::erase_if(found, [&](const FoundCheckpoint& each) { return !is_of(each, run); });
  return found;
}

std::string place_for(const std::string& folder, const std::string& run, int64_t step) {
  const std::vector<FoundCheckpoint> found = list_checkpoints(folder).complete;
  const auto is_of_another = [&](const std::string& path) {
    const auto same = std::ranges::find(found, path, &FoundCheckpoint::path);
    return same != found.end() && !is_of(*same, run);
  };
  std::string path = fs::path(folder) / checkpoint_name(step);
  for (int number = 2; is_of_another(path); ++number) {
    path = fs::path(folder) / fmt::format("step-{:08}-{}{}", step, number, kEnding);
  }
  return path;
}

void remove_partial_files(const std::string& folder) {
  std::error_code ignored;
  for (const std::string& path : files_like(folder, fmt::format("step-*{}.part-*", kEnding))) {
    fs::remove(path, ignored);
  }
}

void remove_older(const std::string& folder, const std::string& run, int64_t step, int64_t keep) {
  int64_t seen = 0;
  std::error_code ignored;
  for (const FoundCheckpoint& found : checkpoints_of(folder, run)) {
    seen += found.step <= step ? 1 : 0;
    if (keep > 0 && found.step < step && seen > keep) {
      fs::remove(found.path, ignored);
    }
  }
}

bool create_shared_folder(Communicator& world, const std::string& folder) {
  std::optional<NewFile> probe;
  std::string text;
  collectively(world, [&] {
    if (world.rank() == 0) {
      std::error_code error;
      fs::create_directories(folder, error);
      if (error) {
        fail(ExitCode::file, "{}: cannot create the folder: {}", folder,
             lower_case_start(error.message()));
      }
      std::random_device random;
      text = fmt::format("{:08x}{:08x}", random(), random());
      // This name lets the next run remove the file of a killed run, like its other files.
      probe.emplace(fs::path(folder) / fmt::format("step-{}{}", text, kEnding));
      probe->write(text);
    }
  });
  text = world.broadcast(text);
  const std::string location = world.broadcast(probe ? probe->location() : "");
  const std::vector<char> seen = all_gather_value(world, static_cast<char>(sees(location, text)));
  return std::ranges::count(seen, 0) == 0;
}

}  // namespace hidup
