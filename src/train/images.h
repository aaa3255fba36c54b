// Images with a class each: CIFAR-10's binary files, and synthetic images like them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/images.h"
#include "train/batches.h"
#include "train/data_file.h"

namespace hidup {

// A record of the files: the class, then the pixels by channel (red, green, blue), row and column.
using ImageRecord = std::array<uint8_t, 1 + kImageValues>;

class ImageSet {
 public:
  ImageSet() = default;
  ImageSet(const ImageSet&) = delete;
  ImageSet& operator=(const ImageSet&) = delete;
  virtual ~ImageSet() = default;

  virtual int64_t count() const = 0;
  // Image 0 .. count() - 1. Throws Error(file).
  virtual ImageRecord read(int64_t index) const = 0;
};

// The images of all files, one file after the other; appends the files to `files`. They stay open
// (train/tokens.h). Throws Error(file) with path and cause for files that cannot be read or are
// not records of classes below kImageClasses, and where there is no image.
std::shared_ptr<const ImageSet> open_images(const std::vector<std::string>& paths,
                                            const std::string& key, std::vector<CorpusFile>& files);

// As many as CIFAR-10 has for training, 50,000, with a rule that can be learned: a class has a
// pattern, which makes each patch brighter or darker in each channel, and every pixel has noise.
// Class of image i: (word(0) * 10) >> 32 of the stream (seed, "data/images", i). Pixel k, in the
// record's order: 32 + 64 p + b / 2, without b's remainder. b is byte k % 4, from the lowest, of
// word(1 + k / 4) of that stream; p is the lowest bit of word(3 patch + channel) of the stream
// (seed, "data/images/patterns", class), with patches row by row.
std::shared_ptr<const ImageSet> synthetic_images(uint64_t seed);

// Images first .. first + count - 1, each once per epoch as corpus_batches() has windows; without
// a seed in order. A sample's values are [kImagePatches, kPatchValues]: patches row by row, in a
// patch by channel, row and column, as the weight of a convolution has them. A pixel x of 0 .. 255
// is (x / 255 - 0.5) / 0.5.
std::unique_ptr<Batches> image_batches(std::shared_ptr<const ImageSet> images, WindowRange range,
                                       std::optional<uint64_t> seed);

}  // namespace hidup
