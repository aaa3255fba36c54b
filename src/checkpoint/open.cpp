#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/header.h"
#include "checkpoint/packed.h"
#include "checkpoint/runs.h"
#include "comm/collective.h"
#include "core/log.h"
#include "core/text.h"

namespace hidup {

// Opens one file on all ranks.
class SharedOpening {
 public:
  // Opens rank 0's file by the header that it reads. A rank that finds the same file opens it, too.
  static CheckpointFile open(Communicator& world, const std::string& path, bool through_rank_0) {
    std::optional<CheckpointFile> file;
    std::string packed;
    collectively(world, [&] {
      if (world.rank() == 0) {
        file.emplace(path);
        packed = pack(*file->header_);
      }
    });
    packed = world.broadcast(packed);
    if (world.rank() != 0) {
      auto header = std::make_shared<StoredHeader>(unpack(packed));
      auto own = through_rank_0 ? nullptr : find(path, header->frame);
      file = CheckpointFile(path, std::move(header), std::move(own));
    }
    file->all_see_it_ = all_true(world, file->file_ != nullptr && !through_rank_0);
    collectively(world, [&] {
      if (file->all_see_it_) {
        file->verify(world.rank(), world.size());
      } else if (world.rank() == 0) {
        file->verify(0, 1);
      }
    });
    return std::move(*file);
  }

  static void read(Communicator& world, const CheckpointFile& file,
                   const std::vector<BoxRequest>& wanted) {
    if (file.all_see_it_) {
      collectively(world, [&] {
        for (const BoxRequest& request : wanted) {
          file.read(request.tensor, request.box, request.out);
        }
      });
      return;
    }
    std::vector<char> tensors(file.tensors().size());
    for (const BoxRequest& request : wanted) {
      tensors.at(request.tensor) = 1;
    }
    const std::vector<std::byte> all = world.all_gather(std::as_bytes(std::span(tensors)));
    for (size_t i = 0; i < all.size(); ++i) {
      tensors[i % tensors.size()] |= static_cast<char>(all[i]);
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i] != 0) {
        distribute(world, file, i, wanted);
      }
    }
  }

 private:
  static constexpr int64_t kPieceBytes = int64_t{64} << 20;

  static bool all_true(Communicator& world, bool mine) {
    return std::ranges::count(all_gather_value(world, static_cast<char>(mine)), 0) == 0;
  }

  static std::shared_ptr<const OpenFile> find(const std::string& path, const Frame& frame) {
    try {
      auto file = std::make_shared<OpenFile>(path, path, OpenFile::For::reading);
      const bool same = same_header(read_user_block(*file), frame);
      return same ? file : nullptr;
    } catch (const Error&) {
      return nullptr;
    }
  }

  // Reads a tensor on rank 0 piece by piece; every rank takes its boxes of each piece.
  static void distribute(Communicator& world, const CheckpointFile& file, size_t tensor,
                         const std::vector<BoxRequest>& wanted) {
    const StoredTensor& stored = file.tensors()[tensor];
    const Extent& extent = file.header_->frame.tensors[tensor];
    const int64_t size = size_of(stored.dtype);
    for (int64_t from = 0; from < extent.bytes; from += kPieceBytes) {
      std::string piece;
      collectively(world, [&] {
        if (world.rank() == 0) {
          piece.resize(static_cast<size_t>(std::min(kPieceBytes, extent.bytes - from)));
          file.file_->read(extent.place + from, std::as_writable_bytes(std::span(piece)));
        }
      });
      piece = world.broadcast(piece);
      for (const BoxRequest& request : wanted) {
        if (request.tensor == tensor) {
          take(request, size, from, piece);
        }
      }
    }
  }

  // Takes a box's elements from a piece of the tensor that begins at byte `from`.
  static void take(const BoxRequest& request, int64_t size, int64_t from,
                   const std::string& piece) {
    const int64_t begin = from / size;
    const int64_t end = begin + static_cast<int64_t>(piece.size()) / size;
    const int64_t first = first_from(request.box, begin);
    const int64_t count = first_from(request.box, end) - first;
    for_each_run(request.box, first, count, [&](int64_t global, int64_t local, int64_t length) {
      std::memcpy(request.out + local * size, piece.data() + (global - begin) * size,
                  static_cast<size_t>(length * size));
    });
  }
};

namespace {

// Opens a file collectively. Returns nothing where the file fails, with the reason on rank 0.
std::optional<CheckpointFile> try_open(Communicator& world, const std::string& path,
                                       bool through_rank_0, std::string& why) {
  try {
    return SharedOpening::open(world, path, through_rank_0);
  } catch (const CollectiveError& error) {
    if (error.code() != ExitCode::file) {
      throw;
    }
    for (const std::string& text : gather_texts(world, error.what())) {
      why += text;  // text of the one rank that has it
    }
    return std::nullopt;
  }
}

}  // namespace

std::optional<CheckpointFile> open_newest(Communicator& world, const std::string& folder,
                                          const std::string& run, bool through_rank_0) {
  std::vector<std::string> paths;
  Packer packer;
  collectively(world, [&] {
    if (world.rank() == 0) {
      const FolderContent content = list_checkpoints(folder);
      for (const DamagedCheckpoint& damaged : content.damaged) {
        log::warning("{}; it is passed by", damaged.error);
      }
      std::map<std::string, std::vector<FoundCheckpoint>> others;
      for (const FoundCheckpoint& found : content.complete) {
        if (is_of(found, run)) {
          paths.push_back(found.path);
        } else {
          others[found.run].push_back(found);
        }
      }
      for (const auto& [other, found] : others) {
        log::warning(
            "{}: {} checkpoint(s) up to step {} of another run, whose timing file is {}, are "
            "passed "
            "by; --resume {} would go on from the newest",
            folder, found.size(), found.front().step, shown(file_of_run(folder, other)),
            found.front().path);
      }
      packer(paths);
    }
  });
  const std::string packed = world.broadcast(packer.take());
  Unpacker unpacker(packed);
  unpacker(paths);
  for (const std::string& path : paths) {
    std::string why;
    if (auto file = try_open(world, path, through_rank_0, why)) {
      return file;
    }
    if (world.rank() == 0) {
      log::warning("{}; the checkpoint before it is taken, if there is one", why);
    }
  }
  return std::nullopt;
}

CheckpointFile open_checkpoint(Communicator& world, const std::string& path, bool through_rank_0) {
  return SharedOpening::open(world, path, through_rank_0);
}

void read_boxes(Communicator& world, const CheckpointFile& file,
                const std::vector<BoxRequest>& wanted) {
  SharedOpening::read(world, file, wanted);
}

}  // namespace hidup
