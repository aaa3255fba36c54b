// Changed or forged files end in an Error(file) or read correctly.
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "checkpoint/checkpoint.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/frame.h"
#include "checkpoint/header.h"
#include "core/check.h"
#include "io/hdf5.h"
#include "sample.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

// Opens a file and reads all of it. Returns the error, or "" for a right file.
std::string reading_error(const std::string& path) {
  try {
    const CheckpointFile file(path);
    file.verify(0, 1);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    return error.what();
  }
}

// A file in memory that tests change and write back.
class Image {
 public:
  explicit Image(const std::string& path) : path_(path), bytes_(sample::bytes_of_file(path)) {}

  size_t size() const { return bytes_.size(); }
  template <typename T>
  T get(size_t at) const {
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }
  template <typename T>
  void set(size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void resize(size_t size) { bytes_.resize(size); }
  std::string error() const {
    const int file = open(path_.c_str(), O_WRONLY | O_TRUNC);
    EXPECT_EQ(write(file, bytes_.data(), bytes_.size()), static_cast<ssize_t>(bytes_.size()));
    close(file);
    return reading_error(path_);
  }

  // Offsets of the user block's members (frame.cpp).
  static constexpr size_t kVersion = 24;
  static constexpr size_t kFileBytes = 40;
  static constexpr size_t kTable = 48;
  size_t table() const { return get<size_t>(kTable); }
  size_t entries() const { return (size() - table()) / sizeof(Extent); }

  // Corrects all checksums except those of the tensors.
  void sign() {
    RunningCrc metadata;
    size_t at = kUserBlock;
    for (size_t i = 0; i <= entries() && table() <= size(); ++i) {
      const Extent next = i < entries() ? get<Extent>(table() + i * sizeof(Extent))
                                        : Extent{static_cast<int64_t>(table()), 0};
      const auto place = static_cast<size_t>(std::max<int64_t>(next.place, 0));
      if (place >= at && place <= size()) {
        metadata.add(part(at, place));
        at = place + static_cast<size_t>(next.bytes);
      }
    }
    set(60, metadata.value());
    set(56, crc32c(part(std::min(table(), size()), size())));
    set(4092, crc32c(part(0, 4092)));
  }

 private:
  std::span<const std::byte> part(size_t from, size_t to) const {
    return std::as_bytes(std::span(bytes_)).subspan(from, to - from);
  }

  std::string path_;
  std::string bytes_;
};

class FuzzedCheckpoint : public testing::Test {
 protected:
  FuzzedCheckpoint() : path_(sample::write_one(folder_ / "", sample::small_tensors(), 1)) {}

  TemporaryFolder folder_;
  std::string path_;
};

TEST_F(FuzzedCheckpoint, HasNoByteThatCanChange) {
  const std::string bytes = sample::bytes_of_file(path_);
  const int file = open(path_.c_str(), O_WRONLY);
  std::mt19937 random(1);
  for (int round = 0; round < 4000; ++round) {
    // Most changes are at the ends, where the frame is.
    const size_t range = round % 4 == 0 ? bytes.size() : size_t{200};
    const size_t from = round % 4 == 1 ? bytes.size() - range : 0;
    const size_t at = from + random() % range;
    const size_t count = std::min<size_t>(1 + random() % 8 * (random() % 2), bytes.size() - at);
    std::string changed = bytes.substr(at, count);
    for (char& byte : changed) {
      byte = static_cast<char>(round % 3 == 0 ? -1 : static_cast<int>(random() % 256));
    }
    ASSERT_EQ(pwrite(file, changed.data(), count, static_cast<off_t>(at)),
              static_cast<ssize_t>(count));
    ASSERT_EQ(reading_error(path_).empty(), changed == bytes.substr(at, count))
        << at << " " << count;
    ASSERT_EQ(pwrite(file, bytes.data() + at, count, static_cast<off_t>(at)),
              static_cast<ssize_t>(count));
  }
  close(file);
  EXPECT_EQ(reading_error(path_), "");
}

TEST_F(FuzzedCheckpoint, HasAFrameThatIsCheckedBeyondItsChecksums) {
  const Image whole(path_);
  ASSERT_EQ(whole.entries(), 2U);
  Image signed_again = whole;
  signed_again.sign();
  ASSERT_EQ(signed_again.error(), "");
  constexpr int64_t kHuge = 0x7fffffffffffffff;
  std::vector<int64_t> values = {-1, 0, 1, 511, 4095, kHuge, kHuge - 7, int64_t{1} << 40, -kHuge};
  for (int64_t near = -16; near <= 16; near += 4) {
    values.push_back(static_cast<int64_t>(whole.table()) + near);
    values.push_back(static_cast<int64_t>(whole.size()) + near);
    values.push_back(whole.get<int64_t>(whole.table()) + near);
  }
  std::vector<size_t> places = {Image::kVersion, Image::kFileBytes, Image::kTable};
  for (size_t at = whole.table(); at < whole.size(); at += sizeof(int64_t)) {
    places.push_back(at);
  }
  for (const size_t at : places) {
    for (const int64_t value : values) {
      Image image = whole;
      image.set(at, value);
      image.sign();
      const bool same = value == whole.get<int64_t>(at);
      EXPECT_EQ(image.error().empty(), same) << value << " at " << at;
    }
  }
  // Two tensors share one place.
  Image image = whole;
  image.set(whole.table() + sizeof(Extent), whole.get<Extent>(whole.table()));
  image.sign();
  EXPECT_NE(image.error().find("tensors overlap in it"), std::string::npos);
}

TEST_F(FuzzedCheckpoint, CanBeSoShortThatNothingIsThere) {
  for (const size_t size : {0, 1, 4095, 4096, 4097, 5000}) {
    Image image(path_);
    image.resize(size);
    if (size >= 4096) {
      image.set(Image::kFileBytes, size);
      image.set(Image::kTable, size);
      image.sign();
    }
    EXPECT_NE(image.error(), "") << size;
  }
}

// Makes a checkpoint, lets `change` alter its HDF5 content, and frames it.
class WrongCheckpoint : public testing::Test {
 protected:
  using Change = std::function<void(hid_t file)>;

  std::string error_with(const Change& change, std::vector<StoredTensor> tensors = kTensors) {
    const std::string path = folder_ / "step-00000001.ckpt.h5";
    std::vector<Extent> extents;
    {
      NewFile file(path);
      const Places places = write_header(file, sample::state(1), tensors);
      for (size_t i = 0; i < tensors.size(); ++i) {
        extents.push_back({places.tensors[i], bytes_of(tensors[i])});
      }
      file.take_name(true);
    }
    {
      const auto lock = hdf5::lock_library();
      const hdf5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
      change(file.get());
    }
    const OpenFile writing(path, path, OpenFile::For::writing);
    write_frame(writing, OpenFile(path, path, OpenFile::For::reading), 1, "", extents);
    try {
      const CheckpointFile file(path);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::file);
      return error.what();
    }
  }

  // Replaces parameters/a by another dataset.
  std::string error_of_dataset(hid_t type, const hdf5::Extents& extents,
                               const std::function<void(hid_t creation)>& set) {
    return error_with([&](hid_t file) {
      EXPECT_GE(H5Ldelete(file, "parameters/a", H5P_DEFAULT), 0);
      const hdf5::Handle creation(H5Pcreate(H5P_DATASET_CREATE));
      H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
      set(creation.get());
      const hdf5::Handle space(
          H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
      const hdf5::Handle data(H5Dcreate2(file, "parameters/a", type, space.get(), H5P_DEFAULT,
                                         creation.get(), H5P_DEFAULT));
      EXPECT_GE(data.get(), 0);
    });
  }

  static const std::vector<StoredTensor> kTensors;
  TemporaryFolder folder_;
};

const std::vector<StoredTensor> WrongCheckpoint::kTensors = {
    {"parameters/a", DType::f32, {7, 9}}, {"optimizer/a.m", DType::bf16, {7, 9}}};

TEST_F(WrongCheckpoint, IsRightWithoutAChange) {
  EXPECT_EQ(error_with([](hid_t) {}), "");
}

TEST_F(WrongCheckpoint, HasOtherDatasets) {
  const auto nothing = [](hid_t) {};
  const hdf5::Extents extents = {7, 9};
  const auto expect = [](const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect(error_of_dataset(H5T_IEEE_F32LE, extents,
                          [&](hid_t creation) { H5Pset_chunk(creation, 2, extents.data()); }),
         "parameters/a is not one piece of this file");
  expect(error_of_dataset(H5T_IEEE_F32LE, extents,
                          [](hid_t creation) { H5Pset_layout(creation, H5D_COMPACT); }),
         "parameters/a is not one piece of this file");
  expect(error_of_dataset(
             H5T_IEEE_F32LE, extents,
             [](hid_t creation) { H5Pset_external(creation, "/etc/passwd", 0, H5F_UNLIMITED); }),
         "parameters/a is not one piece of this file");
  expect(error_of_dataset(H5T_IEEE_F64LE, extents, nothing),
         "parameters/a has elements of an unknown type");
  expect(error_of_dataset(H5T_IEEE_F32LE, {7, 0}, nothing), "or no elements");
  expect(error_of_dataset(H5T_IEEE_F32LE, {1, 1, 1, 1, 1, 1, 1, 1}, nothing), "8 dimensions");
  expect(error_of_dataset(H5T_IEEE_F32LE, {1U << 30, 1U << 30},
                          [](hid_t creation) { H5Pset_alloc_time(creation, H5D_ALLOC_TIME_LATE); }),
         "parameters/a is larger than the file");
  // A dataset that is allocated late has no place.
  expect(error_of_dataset(H5T_IEEE_F32LE, extents,
                          [](hid_t creation) { H5Pset_alloc_time(creation, H5D_ALLOC_TIME_LATE); }),
         "has no tensor at byte");
}

TEST_F(WrongCheckpoint, HasMissingOrOtherObjects) {
  const auto expect = [&](const std::string& part, const Change& change) {
    const std::string error = error_with(change);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  const auto remove = [](const char* name) {
    return [name](hid_t file) { EXPECT_GE(H5Ldelete(file, name, H5P_DEFAULT), 0); };
  };
  expect("has no tensor at byte", remove("optimizer/a.m"));
  expect("checksums/optimizer/a.m", remove("checksums/optimizer/a.m"));
  expect("cannot open state", remove("state"));
  expect("optimizer/b is a link to elsewhere", [](hid_t file) {
    H5Lcreate_external("/tmp/other.h5", "/", file, "optimizer/b", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect("parameters/b is not in its table", [](hid_t file) {
    const hsize_t extent = 30;
    const hdf5::Handle space(H5Screate_simple(1, &extent, nullptr));
    const hdf5::Handle creation(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
    const hdf5::Handle data(H5Dcreate2(file, "parameters/b", H5T_IEEE_F32LE, space.get(),
                                       H5P_DEFAULT, creation.get(), H5P_DEFAULT));
  });
  expect("checksums/parameters/a does not fit", [](hid_t file) {
    H5Ldelete(file, "checksums/parameters/a", H5P_DEFAULT);
    const hsize_t extent = 2;
    const hdf5::Handle space(H5Screate_simple(1, &extent, nullptr));
    const hdf5::Handle creation(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
    const hdf5::Handle data(H5Dcreate2(file, "checksums/parameters/a", H5T_STD_U32LE, space.get(),
                                       H5P_DEFAULT, creation.get(), H5P_DEFAULT));
  });
}

TEST_F(WrongCheckpoint, HasMissingOrOtherAttributes) {
  for (const std::string name : {"step", "loss_scale", "seed", "resolved", "vocabulary"}) {
    const auto remove = [&](hid_t file) {
      EXPECT_GE(H5Adelete_by_name(file, "state", name.c_str(), H5P_DEFAULT), 0);
    };
    EXPECT_NE(error_with(remove).find("cannot open the attribute " + name), std::string::npos);
    const auto replace = [&](hid_t file) {
      remove(file);
      const hsize_t extent = 3;
      const hdf5::Handle space(H5Screate_simple(1, &extent, nullptr));
      const hdf5::Handle attribute(H5Acreate_by_name(file, "state", name.c_str(), H5T_STD_I16LE,
                                                     space.get(), H5P_DEFAULT, H5P_DEFAULT,
                                                     H5P_DEFAULT));
    };
    EXPECT_NE(error_with(replace).find("the attribute " + name + " has the wrong type"),
              std::string::npos);
  }
  const auto later = [](hid_t file) {
    EXPECT_GE(H5Adelete_by_name(file, "state", "format_version", H5P_DEFAULT), 0);
    const hdf5::Handle space(H5Screate(H5S_SCALAR));
    const hdf5::Handle version(H5Acreate_by_name(file, "state", "format_version", H5T_STD_I64LE,
                                                 space.get(), H5P_DEFAULT, H5P_DEFAULT,
                                                 H5P_DEFAULT));
    const int64_t value = 2;
    EXPECT_GE(H5Awrite(version.get(), H5T_NATIVE_INT64, &value), 0);
  };
  const std::string error = error_with(later);
  EXPECT_NE(error.find("is a checkpoint of format 2; this program reads format 1"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace hidup
