// Images: CIFAR-10's files, synthetic ones, their patches, and each rank's part.
#include "train/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "core/check.h"
#include "deck/train_deck.h"
#include "temporary_folder.h"
#include "train/dataset.h"
#include "train/inputs.h"

namespace hidup {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

// Returns a record whose pixels encode their place.
ImageRecord numbered(uint8_t label) {
  ImageRecord record = {};
  record[0] = label;
  for (size_t k = 0; k + 1 < record.size(); ++k) {
    record[k + 1] = static_cast<uint8_t>((k * 7 + label) % 256);
  }
  return record;
}

std::string text_of(const std::vector<ImageRecord>& records) {
  std::string text;
  for (const ImageRecord& record : records) {
    text.append(reinterpret_cast<const char*>(record.data()), record.size());
  }
  return text;
}

Dataset open(const std::string& keys) {
  const DeckSource model{"m.yaml",
                         "model: {family: vit, layers: 1, hidden: 4, heads: 1}\n"
                         "data: {kind: images" +
                             keys + "}\ntrain: {batch: 2, steps: 1, seed: 5}\n",
                         "/"};
  return open_data(parse_decks(&model, nullptr, {}));
}

std::string problem(const std::string& keys, ExitCode code) {
  try {
    open(keys);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "";
}

TEST(Images, PatchesRowByRowAndInThemByChannelRowAndColumn) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.bin", text_of({numbered(3), numbered(9)}));
  std::vector<CorpusFile> files;
  const auto batches = image_batches(open_images({path}, "data.path", files), {0, 2}, std::nullopt);
  const Samples samples = batches->read(0, 2);
  EXPECT_EQ(samples.targets, (std::vector<int32_t>{3, 9}));
  EXPECT_TRUE(samples.tokens.empty());
  ASSERT_EQ(samples.images.size(), 2U * 64 * 48);
  for (int64_t image = 0; image < 2; ++image) {
    const ImageRecord record = numbered(image == 0 ? 3 : 9);
    for (int64_t channel = 0; channel < 3; ++channel) {
      for (int64_t row = 0; row < 32; ++row) {
        for (int64_t column = 0; column < 32; ++column) {
          const int64_t patch = row / 4 * 8 + column / 4;
          const int64_t value = channel * 16 + row % 4 * 4 + column % 4;
          const uint8_t pixel = record[static_cast<size_t>(1 + channel * 1024 + row * 32 + column)];
          ASSERT_FLOAT_EQ(samples.images[static_cast<size_t>((image * 64 + patch) * 48 + value)],
                          static_cast<float>(pixel) / 127.5F - 1.0F)
              << channel << " " << row << " " << column;
        }
      }
    }
  }
}

TEST(Images, FilesOneBehindTheOtherAndEveryImageOncePerEpoch) {
  const TemporaryFolder folder;
  folder.write("b1.bin", text_of({numbered(0), numbered(1), numbered(2)}));
  folder.write("b2.bin", "");
  folder.write("b3.bin", text_of({numbered(3), numbered(4)}));
  const Dataset data = open(", path: " + (folder / "b*.bin"));
  EXPECT_EQ(data.files.size(), 3U);
  EXPECT_EQ(data.vocab, 10);
  EXPECT_EQ(data.description, "5 images in 3 file(s)");
  std::set<std::vector<int32_t>> orders;
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    std::vector<int32_t> labels = data.batches->read(5 * epoch, 5).targets;
    orders.insert(labels);
    std::ranges::sort(labels);
    EXPECT_EQ(labels, (std::vector<int32_t>{0, 1, 2, 3, 4}));
  }
  EXPECT_GT(orders.size(), 1U);
}

TEST(Images, ForValidation) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("a.bin", text_of({numbered(0), numbered(1), numbered(2), numbered(3)}));
  const Dataset part = open(", validation: 0.5, path: " + path);
  EXPECT_EQ(part.validation_sequences, 2);
  EXPECT_EQ(part.validation->read(0, 2).targets, (std::vector<int32_t>{2, 3}));
  EXPECT_THAT(part.batches->read(0, 2).targets, testing::UnorderedElementsAre(0, 1));
  EXPECT_THAT(part.description, EndsWith("; validation: the last 2 of them"));
  const Dataset other = open(", validation: " + path);
  EXPECT_EQ(other.validation_sequences, 4);
  EXPECT_EQ(other.description, "50,000 synthetic images; validation: 4 images");
  EXPECT_EQ(other.files.size(), 1U);
  EXPECT_THAT(problem(", validation: 0.05, path: " + path, ExitCode::usage),
              HasSubstr("data.validation 0.05 of 4 image(s) leaves 4 for training and 0 for"));
}

TEST(Images, RefusesOtherFiles) {
  const TemporaryFolder folder;
  std::vector<ImageRecord> records = {numbered(1), numbered(10)};
  EXPECT_THAT(problem(", path: " + folder.write("a.bin", text_of(records)), ExitCode::file),
              HasSubstr("a.bin has the class 10, expected 0 to 9"));
  EXPECT_THAT(problem(", path: " + folder.write("b.bin", std::string(3074, '\0')), ExitCode::file),
              HasSubstr("b.bin has 3074 bytes, no multiple of the 3073 bytes of an image"));
  EXPECT_THAT(problem(", path: " + folder.write("c.bin", ""), ExitCode::file),
              HasSubstr("c.bin has no images"));
  EXPECT_THAT(problem(", path: /none", ExitCode::file), HasSubstr("cannot read /none"));
}

// Images of one class share a pattern that others lack; another seed makes other images.
TEST(Images, SyntheticOnesHaveARule) {
  const auto images = synthetic_images(7);
  std::vector<std::vector<uint8_t>> patterns(10);  // true if the first pixel of a patch is bright
  for (int64_t i = 0; i < 200; ++i) {
    const ImageRecord record = images->read(i);
    ASSERT_LT(record[0], 10);
    std::vector<uint8_t> bright;
    for (size_t at = 0; at < 3072; at += 4) {
      int sum = 0;
      for (size_t k = 0; k < 4; ++k) {
        const int pixel = record[1 + at + k];
        ASSERT_TRUE(pixel >= 32 && pixel < 32 + 64 + 128);
        sum += pixel;
      }
      bright.push_back(sum > 4 * 128 ? 1 : 0);
    }
    auto& known = patterns[record[0]];
    if (known.empty()) {
      known = bright;
    }
    int different = 0;  // the noise hides some
    for (size_t p = 0; p < known.size(); ++p) {
      different += known[p] == bright[p] ? 0 : 1;
    }
    EXPECT_LT(different, 192) << i;
  }
  for (size_t c = 1; c < patterns.size(); ++c) {
    EXPECT_FALSE(patterns[c].empty());
    EXPECT_NE(patterns[c], patterns[0]);
  }
  EXPECT_EQ(images->read(49999), synthetic_images(7)->read(49999));
  EXPECT_NE(images->read(3), synthetic_images(8)->read(3));
}

// Ranks together read the same samples as one rank, however the inputs are cut.
TEST(Images, RanksReadTheirParts) {
  const auto batches = image_batches(synthetic_images(3), {0, 50000}, 3);
  const Samples whole = batches->read(10, 5);
  Deck deck;
  deck.train->batch = 5;
  for (const int dim : {0, 1, 2}) {
    Program program{.mesh = {{"ranks", 3}}};
    program.values = {{.name = "images",
                       .role = Value::Role::input,
                       .shape = {5, 64, 48},
                       .layout = {Placement::shard(dim)}},
                      {.name = "targets",
                       .role = Value::Role::input,
                       .dtype = DType::i32,
                       .shape = {5},
                       .layout = {Placement::shard(0)}}};
    program.images = {0};
    program.targets = {1};
    size_t seen = 0;
    for (int64_t rank = 0; rank < 3; ++rank) {
      StepInputs inputs;
      fill_inputs(program, rank, deck, *batches, 3, inputs, 14);
      const Region part = program.region(0, rank);
      std::vector<float> values(static_cast<size_t>(part.elements()));
      ASSERT_EQ(inputs.images.at(0).size(), values.size() * sizeof(float));
      std::memcpy(values.data(), inputs.images[0].data(), inputs.images[0].size());
      for (size_t i = 0; i < values.size(); ++i, ++seen) {
        const int64_t at = part.global_index(static_cast<int64_t>(i));
        ASSERT_EQ(values[i], whole.images[static_cast<size_t>(at)]) << dim << " " << i;
      }
      const Region rows = program.region(1, rank);
      ASSERT_EQ(static_cast<int64_t>(inputs.targets.at(0).size()), rows.extent[0]);
      for (int64_t i = 0; i < rows.extent[0]; ++i) {
        const auto sample = static_cast<size_t>(rows.start[0] + i);
        EXPECT_EQ(inputs.targets[0][static_cast<size_t>(i)],
                  sample < 4 ? whole.targets[sample] : -1);
      }
    }
    EXPECT_EQ(seen, whole.images.size());
  }
}

}  // namespace
}  // namespace hidup
