#include "train/images.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/random.h"

namespace hidup {
namespace {

constexpr auto kRecordBytes = static_cast<int64_t>(sizeof(ImageRecord));

// Returns the number of images.
int64_t check_image_file(const DataFile& file) {
  const int64_t count = file.bytes() / kRecordBytes;
  if (file.bytes() % kRecordBytes != 0) {
    fail(ExitCode::file,
         "{}: {} has {} bytes, no multiple of the {} bytes of an image: is it a binary file of "
         "CIFAR-10?",
         file.key(), file.path(), file.bytes(), kRecordBytes);
  }
  for (int64_t i = 0; i < count; ++i) {
    uint8_t label = 0;
    file.read(i * kRecordBytes, &label, 1);
    if (label >= kImageClasses) {
      fail(ExitCode::file, "{}: image {} of {} has the class {}, expected 0 to {}", file.key(), i,
           file.path(), label, kImageClasses - 1);
    }
  }
  return count;
}

class ImageFiles final : public ImageSet {
 public:
  void append(std::shared_ptr<const DataFile> file) {
    ends_.push_back(count() + check_image_file(*file));
    files_.push_back(std::move(file));
  }

  int64_t count() const override { return ends_.empty() ? 0 : ends_.back(); }

  ImageRecord read(int64_t index) const override {
    const auto file = std::ranges::upper_bound(ends_, index) - ends_.begin();
    const int64_t first = file == 0 ? 0 : ends_[static_cast<size_t>(file - 1)];
    ImageRecord record = {};
    files_.at(static_cast<size_t>(file))
        ->read((index - first) * kRecordBytes, record.data(), kRecordBytes);
    return record;
  }

 private:
  std::vector<std::shared_ptr<const DataFile>> files_;
  std::vector<int64_t> ends_;  // number of images up to the end of each file
};

// The patch of a channel's pixel, and the pixel's place in the patch.
struct PatchPlace {
  int64_t patch;
  int64_t pixel;  // index among the channel's pixels of the patch
};
PatchPlace patch_place(int64_t pixel) {
  const int64_t row = pixel / kImageSide;
  const int64_t column = pixel % kImageSide;
  return {row / kPatchSide * (kImageSide / kPatchSide) + column / kPatchSide,
          row % kPatchSide * kPatchSide + column % kPatchSide};
}

class SyntheticImages final : public ImageSet {
 public:
  explicit SyntheticImages(uint64_t seed) : seed_(seed) {}

  int64_t count() const override { return 50000; }

  ImageRecord read(int64_t index) const override {
    const RandomStream random = random_stream(seed_, "data/images", static_cast<uint64_t>(index));
    ImageRecord record = {};
    record[0] = static_cast<uint8_t>((uint64_t{random.word(0)} * kImageClasses) >> 32);
    const RandomStream pattern = random_stream(seed_, "data/images/patterns", record[0]);
    std::array<uint8_t, kImageChannels* kImagePatches> bright = {};
    for (size_t i = 0; i < bright.size(); ++i) {
      bright[i] = pattern.word(i) & 1;
    }
    constexpr int64_t kPixels = kImageSide * kImageSide;
    uint32_t noise = 0;
    for (int64_t k = 0; k < kImageValues; ++k) {
      noise = k % 4 == 0 ? random.word(static_cast<uint64_t>(1 + k / 4)) : noise >> 8;
      const int64_t channel = k / kPixels;
      const auto at =
          static_cast<size_t>(kImageChannels * patch_place(k % kPixels).patch + channel);
      record[static_cast<size_t>(1 + k)] =
          static_cast<uint8_t>(32 + 64 * bright[at] + (noise & 0xFF) / 2);
    }
    return record;
  }

 private:
  uint64_t seed_;
};

class ImageBatches final : public Batches {
 public:
  ImageBatches(std::shared_ptr<const ImageSet> images, WindowRange range,
               std::optional<uint64_t> seed)
      : Batches(1), images_(std::move(images)), order_(range, seed) {
    check(range.first >= 0 && range.count > 0 && range.first + range.count <= images_->count(),
          "images {} to {} of {}", range.first, range.first + range.count, images_->count());
  }

  Samples read(int64_t first, int64_t count) const override {
    Samples samples;
    samples.images.resize(static_cast<size_t>(count * kImageValues));
    samples.targets.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const ImageRecord record = images_->read(order_.window(first + i));
      samples.targets[static_cast<size_t>(i)] = record[0];
      write_patches(record, samples.images.data() + i * kImageValues);
    }
    return samples;
  }

 private:
  static void write_patches(const ImageRecord& record, float* out) {
    constexpr int64_t kPixels = kImageSide * kImageSide;
    for (int64_t k = 0; k < kImageValues; ++k) {
      const auto [patch, pixel] = patch_place(k % kPixels);
      const int64_t value = k / kPixels * kPatchSide * kPatchSide + pixel;
      out[patch * kPatchValues + value] =
          (static_cast<float>(record[static_cast<size_t>(1 + k)]) / 255.0F - 0.5F) / 0.5F;
    }
  }

  std::shared_ptr<const ImageSet> images_;
  WindowOrder order_;
};

}  // namespace

std::shared_ptr<const ImageSet> open_images(const std::vector<std::string>& paths,
                                            const std::string& key,
                                            std::vector<CorpusFile>& files) {
  auto images = std::make_shared<ImageFiles>();
  for (const std::shared_ptr<const DataFile>& file : open_data_files(paths, key, files)) {
    images->append(file);
  }
  if (images->count() == 0) {
    fail(ExitCode::file, "{}: {} has no images", key, fmt::join(paths, ", "));
  }
  return images;
}

std::shared_ptr<const ImageSet> synthetic_images(uint64_t seed) {
  return std::make_shared<const SyntheticImages>(seed);
}

std::unique_ptr<Batches> image_batches(std::shared_ptr<const ImageSet> images, WindowRange range,
                                       std::optional<uint64_t> seed) {
  return std::make_unique<ImageBatches>(std::move(images), range, seed);
}

}  // namespace hidup
