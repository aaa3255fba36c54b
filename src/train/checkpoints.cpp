#include "train/checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "comm/collective.h"
#include "core/check.h"
#include "core/log.h"
#include "core/new_file.h"
#include "deck/train_deck.h"
#include "device/device.h"

namespace hidup {
namespace {

// Returns the estimated seconds to write so many bytes, from a trial with a part of them.
double try_writing(const std::string& folder, int64_t bytes) {
  constexpr int64_t kTrial = int64_t{32} << 20;
  const int64_t tried = std::min(bytes, kTrial);
  std::filesystem::create_directories(folder);
  const double began = monotonic_seconds();
  const std::string path = (std::filesystem::path(folder) / "trial").string();
  write_text_file(path, std::string(static_cast<size_t>(tried), '\0'), true);
  std::filesystem::remove(path);
  return (monotonic_seconds() - began) * static_cast<double>(bytes) /
         static_cast<double>(std::max<int64_t>(tried, 1));
}

}  // namespace

bool asks_for_checkpoints(const Deck& deck) {
  return std::ranges::any_of(deck.places.given, [](const auto& given) {
    return given.first.starts_with("train.checkpoint");
  });
}

Checkpoints::Checkpoints(const Deck& deck, CheckpointPlace place, TrainingState fixed,
                         Executor& executor, Communicator& world)
    : deck_(deck.train->checkpoint),
      place_(std::move(place)),
      wanted_(asks_for_checkpoints(deck)),
      state_(std::move(fixed)),
      executor_(&executor),
      world_(world),
      kept_(persistent_values(executor.program(), world.rank())),
      saved_at_(monotonic_seconds()),
      saved_step_(state_.step) {
  if (wanted_) {
    writer();
  }
}

void Checkpoints::go_on_with(Executor& executor) {
  last_file_ = last_file();
  writer_.reset();
  executor_ = &executor;
  kept_ = persistent_values(executor.program(), world_.rank());
  if (wanted_) {
    writer();
  }
}

CheckpointWriter& Checkpoints::writer() {
  if (!writer_) {
    writer_.emplace(world_,
                    WriterOptions{.folder = place_.folder,
                                  .run = place_.run,
                                  .keep = deck_.keep,
                                  .blocking = deck_.blocking == "on",
                                  .stop_on_error = deck_.on_error == "stop",
                                  .lock = place_.lock,
                                  .before_name =
                                      [timings = place_.timings](int64_t step) {
                                        if (timings != nullptr) {
                                          timings->wait_for_step(step);
                                        }
                                      }},
                    kept_.tensors, kept_.regions);
  }
  return *writer_;
}

bool Checkpoints::is_due(int64_t step) const {
  return deck_.every_steps > 0 && step % deck_.every_steps == 0;
}

bool Checkpoints::is_due_by_time() const {
  return deck_.every_s && monotonic_seconds() - saved_at_ >= *deck_.every_s;
}

double Checkpoints::expected_seconds() {
  if (writer_ && writer_->last_seconds() > 0.0) {
    const double seconds = writer_->last_seconds();
    const bool writing = monotonic_seconds() - saved_at_ < seconds;
    return writing ? 2.0 * seconds : seconds;  // the new one waits for the other
  }
  if (!trial_s_) {
    int64_t bytes = 0;
    for (const StoredTensor& tensor : kept_.tensors) {
      bytes += elements(tensor.shape) * size_of(tensor.dtype);
    }
    trial_s_ = try_writing(place_.folder, bytes);
  }
  return *trial_s_;
}

void Checkpoints::save(int64_t step, const kernels::StepState& state) {
  if (step == saved_step_) {
    return;
  }
  state_.step = step;
  state_.skipped = static_cast<int64_t>(state.skipped);
  state_.loss_scale = static_cast<double>(state.loss_scale);
  state_.loss_scale_good_steps = state.good_steps;
  writer().save(state_, [this](size_t tensor, int64_t first, int64_t count, std::byte* to) {
    executor_->read(kept_.values[tensor], first, count, to);
  });
  saved_at_ = monotonic_seconds();
  saved_step_ = step;
}

void Checkpoints::finish() {
  if (!writer_) {
    return;
  }
  const CheckpointWriter::Result last = writer_->wait();
  if (!last.succeeded) {
    throw CollectiveError(ExitCode::file, last.error);
  }
}

}  // namespace hidup
