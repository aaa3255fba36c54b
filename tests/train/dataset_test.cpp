#include "train/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "comm/collective.h"
#include "fake_ranks/fake_ranks.h"

namespace hidup {
namespace {

using testing::HasSubstr;

// Returns the error of rank 0, where rank 1 has `other` and the other ranks have `files`.
std::string difference(const std::vector<CorpusFile>& files, const std::vector<CorpusFile>& other) {
  std::string message;
  run_ranks(3, [&](Communicator& world) {
    Dataset data;
    data.files = world.rank() == 1 ? other : files;
    try {
      check_same_data(world, data);
    } catch (const CollectiveError& error) {
      EXPECT_EQ(error.code(), ExitCode::file);
      if (world.rank() == 0) {
        message = error.what();
      } else {
        EXPECT_STREQ(error.what(), "");
      }
    }
  });
  return message;
}

TEST(SameData, NamesTheFileThatDiffers) {
  const std::vector<CorpusFile> files = {{"a", 10, 1}, {"b", 20, 2}, {"c", 30, 3}};
  EXPECT_EQ(difference(files, files), "");
  EXPECT_EQ(difference({}, {}), "");
  EXPECT_THAT(difference(files, {{"a", 10, 1}, {"b", 15, 8}, {"c", 30, 9}}),
              HasSubstr("on rank 1 than on rank 0: b, 15 bytes, but on rank 0 b, 20 bytes"));
  EXPECT_THAT(difference(files, {{"a", 10, 1}, {"b", 20, 2}}),
              HasSubstr("no such file, but on rank 0 c, 30 bytes"));
  // The hashes of the validation's files start anew.
  EXPECT_THAT(difference(files, {{"a", 10, 1}, {"x", 25, 7}, {"c", 30, 3}}),
              HasSubstr("x, 25 bytes, but on rank 0 b, 20 bytes"));
}

}  // namespace
}  // namespace hidup
