#include "checkpoint/header.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/crc32c.h"
#include "checkpoint/packed.h"
#include "core/check.h"
#include "core/text.h"
#include "io/hdf5_input.h"

namespace hidup {
namespace {

constexpr const char* kState = "state";
constexpr const char* kChecksums = "checksums/";
constexpr const char* kFormatVersion = "format_version";

// Calls visit(name, member) for all members.
template <typename State, typename Visit>
void for_each_member(State& state, const Visit& visit) {
  visit("step", state.step);
  visit("skipped", state.skipped);
  visit("loss_scale", state.loss_scale);
  visit("loss_scale_good_steps", state.loss_scale_good_steps);
  visit("seed", state.seed);
  visit("graph_hash", state.graph_hash);
  visit("program_version", state.program_version);
  visit("started_at", state.started_at);
  visit("strategy", state.strategy);
  visit("model_deck", state.model_deck);
  visit("cluster_deck", state.cluster_deck);
  visit("resolved", state.resolved);
  visit("graph", state.graph);
  visit("data_hash", state.data_hash);
  visit("timing_file", state.timing_file);
  visit("vocabulary", state.vocabulary);
}

void write_state(hdf5::File& file, const TrainingState& state) {
  file.create_group(kState);
  const hdf5::Handle group(
      file.checked(H5Gopen2(file.id(), kState, H5P_DEFAULT), "open the group {}", kState));
  file.set_attribute(group.get(), kFormatVersion, kCheckpointFormat);
  for_each_member(state, [&](const char* name, const auto& member) {
    file.set_attribute(group.get(), name, member);
  });
}

// Creates the groups of a path that are missing.
void create_groups(hdf5::File& file, const std::string& path, std::set<std::string>& present) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    if (present.insert(path.substr(0, slash)).second) {
      file.create_group(path.substr(0, slash));
    }
  }
}

Places place_all(hdf5::File& file, const std::vector<StoredTensor>& tensors) {
  std::set<std::string> groups;
  Places places;
  const auto place = [&](const std::string& name, hid_t type, const hdf5::Extents& extents) {
    create_groups(file, name, groups);
    return file.place_dataset(name, type, extents);
  };
  for (const StoredTensor& tensor : tensors) {
    places.tensors.push_back(place(tensor.name, file.element_type(tensor.dtype).get(),
                                   {tensor.shape.begin(), tensor.shape.end()}));
  }
  for (const StoredTensor& tensor : tensors) {
    const auto blocks = static_cast<hsize_t>(blocks_of(bytes_of(tensor)));
    places.checksums.push_back(place(kChecksums + tensor.name, H5T_STD_U32LE, {blocks}));
  }
  return places;
}

void read_state(const hdf5::InputFile& file, TrainingState& state) {
  const hdf5::Handle group = file.open_group(kState);
  int64_t version = 0;
  file.get_attribute(group.get(), kFormatVersion, version);
  if (version != kCheckpointFormat) {
    fail(ExitCode::file, "{}: is a checkpoint of format {}; this program reads format {}",
         file.path(), version, kCheckpointFormat);
  }
  for_each_member(state, [&](const char* name, auto& member) {
    file.get_attribute(group.get(), name, member);
  });
}

// Checks the state: right checksums do not show that a run has written it.
void check_state(const std::string& path, const TrainingState& state, int64_t step_of_frame) {
  const auto expect = [&](bool right, const char* name, const auto& value, const auto& expected) {
    if (!right) {
      fail(ExitCode::file, "{}: its state has {} {}, expected {}", path, name, value, expected);
    }
  };
  const auto expect_steps = [&](const char* name, int64_t steps) {
    expect(steps >= 0 && steps <= state.step, name, steps,
           fmt::format("0 to {}, the steps that are done", state.step));
  };
  expect(state.step >= 0, "step", state.step, "0 or more");
  expect(state.step == step_of_frame, "step", state.step,
         fmt::format("{}, which its first bytes have", step_of_frame));
  expect_steps("skipped", state.skipped);
  expect_steps("loss_scale_good_steps", state.loss_scale_good_steps);
  using Float = std::numeric_limits<float>;  // the run uses it as a float
  expect(state.loss_scale >= static_cast<double>(Float::min()) &&
             state.loss_scale <= static_cast<double>(Float::max()),
         "loss_scale", state.loss_scale, "a number above 0 that f32 has");
}

StoredTensor describe(const hdf5::InputFile& file, const std::string& name,
                      const hdf5::InputDataset& data) {
  for (const DType dtype : kDTypes) {
    if (H5Tequal(data.type.get(), file.element_type(dtype).get()) > 0) {
      return {name, dtype, {data.extents.begin(), data.extents.end()}};
    }
  }
  fail(ExitCode::file, "{}: {} has elements of an unknown type", file.path(), shown(name));
}

std::vector<uint32_t> read_checksums(const hdf5::InputFile& file, const OpenFile& bytes,
                                     const StoredTensor& tensor) {
  const std::string name = kChecksums + tensor.name;
  const hdf5::InputDataset data = file.dataset(name);
  const auto blocks = static_cast<hsize_t>(blocks_of(bytes_of(tensor)));
  if (H5Tequal(data.type.get(), H5T_STD_U32LE) <= 0 || data.extents != hdf5::Extents{blocks}) {
    fail(ExitCode::file, "{}: {} does not fit its tensor", file.path(), shown(name));
  }
  std::vector<uint32_t> checksums(blocks);
  bytes.read(data.place, std::as_writable_bytes(std::span(checksums)));
  return checksums;
}

// Reads the datasets of parameters/ and optimizer/, which must be the tensors of the frame.
std::vector<StoredTensor> read_tensors(const hdf5::InputFile& file, const Frame& frame) {
  std::map<int64_t, std::pair<StoredTensor, int64_t>> found;  // by place, with its bytes
  for (const std::string& name : file.datasets()) {
    if (!name.starts_with(kChecksums)) {
      const hdf5::InputDataset data = file.dataset(name);
      found[data.place] = {describe(file, name, data), data.bytes};
    }
  }
  std::vector<StoredTensor> tensors;
  for (const Extent& extent : frame.tensors) {
    const auto tensor = found.find(extent.place);
    if (tensor == found.end() || tensor->second.second != extent.bytes) {
      fail(ExitCode::file, "{}: has no tensor at byte {}, where its table has one", file.path(),
           extent.place);
    }
    tensors.push_back(std::move(tensor->second.first));
    found.erase(tensor);
  }
  if (!found.empty()) {
    fail(ExitCode::file, "{}: {} is not in its table", file.path(),
         shown(found.begin()->second.first.name));
  }
  return tensors;
}

}  // namespace

Places write_header(const NewFile& place, const TrainingState& state,
                    const std::vector<StoredTensor>& tensors) {
  const auto lock = hdf5::lock_library();
  hdf5::File file(place, kUserBlock);
  Places places;
  try {
    write_state(file, state);
    places = place_all(file, tensors);
    file.flush();
  } catch (...) {
    file.abandon();
    throw;
  }
  file.close();
  return places;
}

StoredHeader read_header(const OpenFile& bytes) {
  StoredHeader header;
  header.frame = read_frame(bytes);
  const auto lock = hdf5::lock_library();
  const hdf5::InputFile file(bytes.name(), bytes.bytes());
  read_state(file, header.state);
  check_state(file.path(), header.state, header.frame.step);
  header.tensors = read_tensors(file, header.frame);
  for (const StoredTensor& tensor : header.tensors) {
    header.checksums.push_back(read_checksums(file, bytes, tensor));
  }
  return header;
}

std::string pack(const StoredHeader& header) {
  Packer packer;
  for_each_member(header.state, [&](const char*, const auto& member) { packer(member); });
  packer(header.frame.step);
  packer(header.frame.run);
  packer(header.frame.file_bytes);
  packer(header.frame.table_crc);
  packer(header.frame.metadata_crc);
  packer(header.frame.tensors);
  for (const StoredTensor& tensor : header.tensors) {
    packer(tensor.name);
    packer(tensor.dtype);
    packer(tensor.shape);
  }
  packer(header.checksums);
  return packer.take();
}

StoredHeader unpack(const std::string& bytes) {
  StoredHeader header;
  Unpacker unpacker(bytes);
  for_each_member(header.state, [&](const char*, auto& member) { unpacker(member); });
  unpacker(header.frame.step);
  unpacker(header.frame.run);
  unpacker(header.frame.file_bytes);
  unpacker(header.frame.table_crc);
  unpacker(header.frame.metadata_crc);
  unpacker(header.frame.tensors);
  header.tensors.resize(header.frame.tensors.size());
  for (StoredTensor& tensor : header.tensors) {
    unpacker(tensor.name);
    unpacker(tensor.dtype);
    unpacker(tensor.shape);
  }
  unpacker(header.checksums);
  return header;
}

}  // namespace hidup
