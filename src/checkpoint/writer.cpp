#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <thread>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/division.h"
#include "checkpoint/exchange.h"
#include "checkpoint/folder.h"
#include "checkpoint/folder_lock.h"
#include "checkpoint/frame.h"
#include "checkpoint/header.h"
#include "checkpoint/packed.h"
#include "checkpoint/runs.h"
#include "checkpoint/tensor_writer.h"
#include "comm/collective.h"
#include "core/failure.h"
#include "core/log.h"

namespace hidup {
namespace {

using Clock = std::chrono::steady_clock;

// The file while it is written. Only rank 0 has `place`.
struct WrittenFile {
  std::optional<NewFile> place;
  Places places;
  std::string location;
  std::string name;
};

std::vector<std::vector<Region>> gather_boxes(Communicator& world,
                                              const std::vector<Region>& mine) {
  const std::vector<std::byte> all = world.all_gather(std::as_bytes(std::span(mine)));
  std::vector<std::vector<Region>> boxes(static_cast<size_t>(world.size()));
  const std::byte* at = all.data();
  for (std::vector<Region>& of_rank : boxes) {
    of_rank.resize(mine.size());
    std::copy_n(at, mine.size() * sizeof(Region),
                std::as_writable_bytes(std::span(of_rank)).data());
    at += mine.size() * sizeof(Region);
  }
  return boxes;
}

}  // namespace

class CheckpointWriter::Impl {
 public:
  Impl(Communicator& world, WriterOptions options, std::vector<StoredTensor> tensors,
       const std::vector<Region>& regions);
  ~Impl() { join(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void save(const TrainingState& state, const CopyOut& copy);
  Result wait();

  const std::string& last_file() const { return last_file_; }
  double seconds() const { return seconds_; }
  int64_t bytes() const;
  bool through_rank_0() const { return through_rank_0_; }

 private:
  size_t self() const { return static_cast<size_t>(group_->rank()); }
  bool is_first() const { return group_->rank() == 0; }
  void join();
  void throw_failure();

  // Runs in the thread that writes.
  void run() noexcept;
  // Returns true if `part` succeeded on all ranks; failure_ keeps an error.
  bool attempt(const std::function<void()>& part);
  void write(WrittenFile& file);
  void give_name(WrittenFile& file);
  void create(WrittenFile& file);
  std::vector<BlockCrc> write_tensors(const WrittenFile& file);
  void write_own_parts(TensorWriter& writer);
  void complete(WrittenFile& file, const std::vector<std::vector<std::byte>>& crcs);

  std::unique_ptr<Communicator> group_;  // of the thread, apart from the training's collectives
  WriterOptions options_;
  std::vector<StoredTensor> tensors_;
  bool through_rank_0_ = false;
  std::vector<std::vector<Region>> boxes_;  // [rank][tensor]
  std::vector<Share> shares_;               // [rank]
  std::optional<BlockExchange> exchange_;
  std::vector<std::byte> copied_;  // bytes of this rank's share

  std::thread thread_;
  // The thread owns these members while it runs.
  TrainingState state_;
  Clock::time_point start_;
  double seconds_ = 0;
  std::string last_file_;                            // on rank 0
  enum class Progress { writing, written, failed };  // written: all but the name
  std::atomic<Progress> progress_ = Progress::writing;
  Failure failure_{ExitCode::done, ""};  // failure of the last write; message on rank 0
  bool told_ = true;                     // true once it was thrown
  std::exception_ptr broken_;            // set when ranks cannot communicate any more
};

CheckpointWriter::Impl::Impl(Communicator& world, WriterOptions options,
                             std::vector<StoredTensor> tensors, const std::vector<Region>& regions)
    : group_(world.split(0)), options_(std::move(options)), tensors_(std::move(tensors)) {
  collectively(world, [&] {
    check(regions.size() == tensors_.size(), "a rank has {} boxes of {} tensors", regions.size(),
          tensors_.size());
  });
  through_rank_0_ = !create_shared_folder(world, options_.folder) || options_.through_rank_0;
  boxes_ = gather_boxes(world, regions);
  collectively(world, [&] {
    shares_ = divide(tensors_, boxes_);
    exchange_.emplace(tensors_, boxes_, shares_, through_rank_0_ ? 1 : world.size());
    copied_.resize(static_cast<size_t>(shares_[self()].bytes));
  });
}

int64_t CheckpointWriter::Impl::bytes() const {
  int64_t sum = 0;
  for (const StoredTensor& tensor : tensors_) {
    sum += bytes_of(tensor);
  }
  return sum;
}

void CheckpointWriter::Impl::join() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

void CheckpointWriter::Impl::throw_failure() {
  if (broken_) {
    std::rethrow_exception(broken_);
  }
  if (options_.stop_on_error && failure_.code != ExitCode::done && !std::exchange(told_, true)) {
    throw CollectiveError(failure_.code, failure_.message);
  }
}

void CheckpointWriter::Impl::save(const TrainingState& state, const CopyOut& copy) {
  join();
  throw_failure();
  start_ = Clock::now();
  state_ = state;
  for (const Part& part : shares_[self()].parts) {
    copy(part.tensor, part.first, part.count, copied_.data() + part.at);
  }
  progress_ = Progress::writing;
  thread_ = std::thread([this] { run(); });
  if (options_.blocking && options_.before_name) {
    progress_.wait(Progress::writing);
  }
  if (options_.blocking && (!options_.before_name || progress_ == Progress::failed)) {
    join();
    throw_failure();
  }
}

CheckpointWriter::Result CheckpointWriter::Impl::wait() {
  join();
  if (broken_) {
    std::rethrow_exception(broken_);
  }
  return {failure_.code == ExitCode::done, failure_.message};
}

void CheckpointWriter::Impl::run() noexcept {
  try {
    failure_ = {ExitCode::done, ""};
    WrittenFile file;
    const bool is_written = attempt([&] { write(file); });
    progress_ = is_written ? Progress::written : Progress::failed;
    progress_.notify_all();
    if (is_written) {
      attempt([&] { give_name(file); });
    }
    const std::chrono::duration<double> mine = Clock::now() - start_;
    seconds_ = std::ranges::max(all_gather_value(*group_, mine.count()));
  } catch (...) {
    broken_ = std::current_exception();
    progress_ = Progress::failed;
    progress_.notify_all();
  }
}

bool CheckpointWriter::Impl::attempt(const std::function<void()>& part) {
  try {
    part();
    return true;
  } catch (const CollectiveError& error) {
    failure_.code = error.code();
    told_ = false;
    for (const std::string& text : gather_texts(*group_, error.what())) {
      failure_.message += text;  // text of the one rank that has it
    }
    if (!options_.stop_on_error && is_first()) {
      log::warning("the checkpoint of step {} was not written: {}", state_.step, failure_.message);
    }
    return false;
  }
}

void CheckpointWriter::Impl::write(WrittenFile& file) {
  create(file);
  const std::vector<BlockCrc> mine = write_tensors(file);
  const auto crcs = group_->gather(std::as_bytes(std::span(mine)));
  collectively(*group_, [&] {
    if (is_first()) {
      complete(file, crcs);
    }
  });
}

void CheckpointWriter::Impl::give_name(WrittenFile& file) {
  collectively(*group_, [&] {
    if (options_.before_name) {
      options_.before_name(state_.step);
    }
    if (is_first()) {
      file.place->take_name(true);
      last_file_ = file.name;
      remove_older(options_.folder, options_.run, state_.step, options_.keep);
    }
  });
}

void CheckpointWriter::Impl::create(WrittenFile& file) {
  Packer packer;
  collectively(*group_, [&] {
    if (is_first()) {
      if (options_.lock != nullptr) {
        options_.lock->renew();
      }
      remove_partial_files(options_.folder);
      file.place.emplace(place_for(options_.folder, options_.run, state_.step));
      file.places = write_header(*file.place, state_, tensors_);
      packer(file.place->location());
      packer(file.place->name());
      packer(file.places.tensors);
    }
  });
  const std::string packed = group_->broadcast(packer.take());
  Unpacker unpacker(packed);
  unpacker(file.location);
  unpacker(file.name);
  unpacker(file.places.tensors);
}

std::vector<BlockCrc> CheckpointWriter::Impl::write_tensors(const WrittenFile& file) {
  std::optional<OpenFile> open;
  std::optional<TensorWriter> writer;
  const bool writes = !through_rank_0_ || is_first();
  collectively(*group_, [&] {
    if (writes) {
      open.emplace(file.location, file.name, OpenFile::For::writing);
      writer.emplace(*open, tensors_, file.places.tensors);
      write_own_parts(*writer);
    }
  });
  exchange_->run(*group_, copied_, writer ? &*writer : nullptr);
  std::vector<BlockCrc> crcs;
  collectively(*group_, [&] {
    if (writes) {
      crcs = writer->finish();
    }
  });
  return crcs;
}

void CheckpointWriter::Impl::write_own_parts(TensorWriter& writer) {
  for (const Part& part : shares_[self()].parts) {
    const int64_t size = size_of(tensors_[part.tensor].dtype);
    const auto bytes = std::span<const std::byte>(copied_).subspan(static_cast<size_t>(part.at));
    const auto write = [&](int64_t global, int64_t local, int64_t count) {
      writer.write(part.tensor, global * size,
                   bytes.subspan(static_cast<size_t>((local - part.first) * size),
                                 static_cast<size_t>(count * size)));
    };
    if (!exchange_->has(part.tensor)) {
      for_each_run(boxes_[self()][part.tensor], part.first, part.count, write);
    }
  }
}

void CheckpointWriter::Impl::complete(WrittenFile& file,
                                      const std::vector<std::vector<std::byte>>& crcs) {
  std::vector<std::vector<uint32_t>> linear;
  std::vector<Extent> extents;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const int64_t bytes = bytes_of(tensors_[i]);
    linear.emplace_back(static_cast<size_t>(blocks_of(bytes)));
    extents.push_back({file.places.tensors[i], bytes});
  }
  for (const std::vector<std::byte>& of_rank : crcs) {
    std::vector<BlockCrc> parts(of_rank.size() / sizeof(BlockCrc));
    std::ranges::copy(of_rank, std::as_writable_bytes(std::span(parts)).begin());
    for (const BlockCrc& part : parts) {
      linear[part.tensor][static_cast<size_t>(part.block)] ^= part.crc;
    }
  }
  const OpenFile writing(file.location, file.name, OpenFile::For::writing);
  const OpenFile reading(file.location, file.name, OpenFile::For::reading);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const std::vector<uint32_t> checksums = complete_crcs(tensors_[i], linear[i]);
    writing.write(file.places.checksums[i], std::as_bytes(std::span(checksums)));
  }
  write_frame(writing, reading, state_.step, options_.run, extents);
}

CheckpointWriter::CheckpointWriter(Communicator& world, WriterOptions options,
                                   std::vector<StoredTensor> tensors,
                                   const std::vector<Region>& regions)
    : impl_(std::make_unique<Impl>(world, std::move(options), std::move(tensors), regions)) {}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::save(const TrainingState& state, const CopyOut& copy) {
  impl_->save(state, copy);
}

CheckpointWriter::Result CheckpointWriter::wait() {
  return impl_->wait();
}

const std::string& CheckpointWriter::last_file() const {
  return impl_->last_file();
}

double CheckpointWriter::last_seconds() const {
  return impl_->seconds();
}

int64_t CheckpointWriter::bytes() const {
  return impl_->bytes();
}

bool CheckpointWriter::through_rank_0() const {
  return impl_->through_rank_0();
}

}  // namespace hidup
