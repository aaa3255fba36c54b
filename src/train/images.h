// Images with one class each: CIFAR-10's binary files, and synthetic images like them.
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
  // Returns the record of image 0 .. count() - 1. Throws Error(file).
  virtual ImageRecord read(int64_t index) const = 0;
};

// Returns the images of all files, one file after the other; appends the files to `files`. The
// files stay open (train/tokens.h). Throws Error(file) with path and cause for files that cannot be
// read or do not consist of records of classes below kImageClasses, and if there is no image.
std::shared_ptr<const ImageSet> open_images(const std::vector<std::string>& paths,
                                            const std::string& key, std::vector<CorpusFile>& files);

// Returns 50,000 images, as many as CIFAR-10 has for training, with a rule that can be learned: a
// class has a pattern that makes each patch brighter or darker in each channel, and every pixel has
// noise. Class of image i: (word(0) * 10) >> 32 of the stream (seed, "data/images", i). Pixel k, in
// the record's order: 32 + 64 p + b / 2, rounded down. b is byte k % 4, from the lowest, of
// word(1 + k / 4) of that stream; p is the lowest bit of word(3 patch + channel) of the stream
// (seed, "data/images/patterns", class), with patches row by row.
std::shared_ptr<const ImageSet> synthetic_images(uint64_t seed);

// Returns batches of images first .. first + count - 1, each once per epoch in the order of
// corpus_batches(), or in file order without a seed. A sample is [kImagePatches, kPatchValues]:
// patches row by row, the values of a patch by channel, row and column, like a convolution's
// weight. A pixel x of 0 .. 255 becomes (x / 255 - 0.5) / 0.5.
std::unique_ptr<Batches> image_batches(std::shared_ptr<const ImageSet> images, WindowRange range,
                                       std::optional<uint64_t> seed);

}  // namespace hidup
