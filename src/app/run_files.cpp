#include "app/run_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/folder.h"
#include "comm/collective.h"
#include "core/check.h"
#include "core/log.h"
#include "deck/train_deck.h"
#include "io/timing_input.h"
#include "train/checkpoints.h"

namespace hidup {
namespace {

namespace fs = std::filesystem;

// Rejects checkpoints of an earlier run of the same name, which would pass as this run's.
void check_folder(const RunFiles& files, bool overwrite) {
  const std::vector<FoundCheckpoint> found = checkpoints_of(files.checkpoints, files.run);
  if (found.empty() || found.front().step <= files.steps_done()) {
    return;
  }
  if (files.checkpoint) {
    log::warning("{} is newer than step {}, and --resume auto would take it", found.front().path,
                 files.steps_done());
  } else if (!overwrite) {
    fail(ExitCode::file,
         "{}: has checkpoints of an earlier run, up to step {}: --resume auto goes on from there, "
         "--overwrite removes them",
         files.checkpoints, found.front().step);
  }
}

// Locks the folder, because two runs in one folder would remove each other's files. A run without
// requested checkpoints writes at most one at its end, into its own folder.
void lock_folder(RunFiles& files, const RunFileOptions& options, const Deck& deck) {
  std::error_code ignored;
  if (asks_for_checkpoints(deck) ||
      (options.resume == "auto" && fs::exists(files.checkpoints, ignored))) {
    files.lock =
        std::make_unique<FolderLock>(files.checkpoints, fs::absolute(options.out).string());
  }
}

// Returns text such as "13 to 20", or several of these.
std::string ranges(const std::vector<int64_t>& steps) {
  std::string text;
  for (size_t first = 0, end = 0; first < steps.size(); first = end) {
    while (end < steps.size() && steps[end] - steps[first] == static_cast<int64_t>(end - first)) {
      ++end;
    }
    text += fmt::format("{}{}", text.empty() ? "" : ", ", steps[first]);
    text += end - first > 1 ? fmt::format(" to {}", steps[end - 1]) : "";
  }
  return text;
}

// Warns of rows that a killed run or host did not write to disk; the joined files lack them.
void tell_missing_rows(const CheckpointFile& checkpoint) {
  const std::string& file = checkpoint.state().timing_file;
  try {
    const std::vector<int64_t> missing = missing_steps(file, checkpoint.state().step);
    if (!missing.empty()) {
      log::warning("{}: lacks the rows of steps {}, which the checkpoint has", file,
                   ranges(missing));
    }
  } catch (const Error& error) {
    log::warning("the rows of the steps before the checkpoint cannot be read: {}", error.what());
  }
}

}  // namespace

std::string checkpoint_folder(const Deck& deck, const std::string& out) {
  const std::string& wanted = deck.train->checkpoint.folder;
  return wanted.empty() ? fs::path(out).replace_extension(".ckpt").string() : wanted;
}

std::string next_timing_file(const std::string& out) {
  const fs::path path = out;
  std::string name = out;
  for (int number = 2; fs::exists(name); ++number) {
    name = (path.parent_path() / path.stem()).string() +
           fmt::format("-{}{}", number, path.extension().string());
  }
  return name;
}

RunFiles open_run_files(const RunFileOptions& options, const Deck& deck, Communicator& world) {
  if (options.out.empty()) {
    RunFiles files;
    if (!options.resume.empty()) {
      files.checkpoint.emplace(open_checkpoint(world, options.resume));
    }
    return files;
  }
  RunFiles files{.checkpoints = world.broadcast(checkpoint_folder(deck, options.out))};
  collectively(world, [&] {
    if (world.rank() == 0) {
      files.run = options.names_out ? run_name(files.checkpoints, options.out) : "";
      lock_folder(files, options, deck);
    }
  });
  if (options.resume == "auto") {
    files.checkpoint = open_newest(world, files.checkpoints, files.run);
    if (!files.checkpoint) {
      log::info("no complete checkpoint in {}: the run starts with step 1", files.checkpoints);
    }
  } else if (!options.resume.empty()) {
    files.checkpoint.emplace(open_checkpoint(world, options.resume));
  }
  collectively(world, [&] {
    if (files.checkpoint && !options.gradients.empty()) {
      fail(ExitCode::usage, "--dump-gradients writes those of step 1, but the run goes on from {}",
           files.checkpoint->path());
    }
    if (world.rank() == 0) {
      if (files.checkpoint) {
        tell_missing_rows(*files.checkpoint);
      }
      files.out = options.resume.empty() ? options.out : next_timing_file(options.out);
      if (options.resume != "auto") {  // newer checkpoints are damaged under auto
        check_folder(files, options.overwrite);
      }
      prepare_outputs({{"--out", files.out}, {"--dump-gradients", options.gradients}},
                      options.inputs, options.overwrite);
    }
  });
  files.out = world.broadcast(files.out);
  if (files.run.empty() && options.resume == "auto" && files.checkpoint) {
    files.run = files.checkpoint->run();
  }
  return files;
}

void remove_old_checkpoints(const RunFiles& files) {
  if (!files.checkpoint) {
    for (const FoundCheckpoint& old : checkpoints_of(files.checkpoints, files.run)) {
      fs::remove(old.path);
    }
  }
}

}  // namespace hidup
