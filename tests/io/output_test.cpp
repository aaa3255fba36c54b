// What users meet around the files: refusals, gradients, the run's surroundings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/check.h"
#include "io/gradient_file.h"
#include "io/resources.h"
#include "io/timing_file.h"
#include "reader.h"
#include "sample.h"

namespace hidup {
namespace {

// The message of the Error(file) of creating a timing file.
std::string refusal(const std::string& path, bool overwrite) {
  try {
    TimingFile(path, overwrite, sample::header()).close();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    return error.what();
  }
  return "";
}

TEST(Output, RefusesAnExistingFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("run.h5");
  EXPECT_EQ(refusal(path, false), "");
  const auto size = std::filesystem::file_size(path);
  EXPECT_EQ(refusal(path, false), path + ": exists; pass --overwrite or another --out");
  EXPECT_EQ(std::filesystem::file_size(path), size);
  EXPECT_EQ(refusal(path, true), "");
}

TEST(Output, CreatesParentFolders) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder.file("a/b/run.h5"), false), "");
  EXPECT_TRUE(std::filesystem::exists(folder.file("a/b/run.h5")));
}

TEST(Output, NamesWhatIsInTheWay) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("file")) << "x";
  std::filesystem::create_directory(folder.file("folder"));
  std::filesystem::create_symlink(folder.file("nowhere"), folder.file("dangling"));
  EXPECT_EQ(refusal(folder.file("folder"), true),
            folder.file("folder") + ": is a folder, where --out needs a regular file");
  EXPECT_EQ(refusal("/dev/null", true),
            "/dev/null: is not a regular file, where --out needs a regular file");
  EXPECT_TRUE(std::filesystem::exists("/dev/null"));
  EXPECT_EQ(refusal(folder.file("file/run.h5"), false),
            folder.file("file/run.h5") + ": cannot create the folder " + folder.file("file") +
                ": Not a directory");
  EXPECT_EQ(refusal("/proc/run.h5", false),
            "/proc/run.h5: cannot create the file: no such file or directory");
}

TEST(Output, OverwritingLeavesTheOldFileToItsReaders) {
  const TemporaryFolder folder;
  const std::string path = folder.file("run.h5");
  EXPECT_EQ(refusal(path, false), "");
  const Reader old(path);
  EXPECT_EQ(refusal(path, true), "");
  EXPECT_EQ(old.texts("/strategy/text").front(), "format_version: 1\n");
}

TEST(Gradients, AreStoredInTheirShape) {
  const TemporaryFolder folder;
  const std::string path = folder.file("gradients.h5");
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const float scale = 0.5F;
  write_gradients(path, false, 2.25,
                  std::vector<NamedTensor>{{"layers.0.ffn.up.weight", {2, 3}, weight.data()},
                                           {"scale", {}, &scale}});
  const Reader reader(path);
  EXPECT_EQ(reader.attribute<int64_t>("step"), 1);
  EXPECT_EQ(reader.attribute<double>("loss"), 2.25);
  EXPECT_EQ(reader.shape("layers.0.ffn.up.weight"), (std::vector<hsize_t>{2, 3}));
  EXPECT_EQ(reader.values<float>("layers.0.ffn.up.weight"), weight);
  EXPECT_EQ(reader.values<float>("scale"), std::vector<float>{scale});
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(Gradients, RefuseAnExistingFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("gradients.h5");
  write_gradients(path, false, 2.0, {});
  EXPECT_THROW(write_gradients(path, false, 3.0, {}), Error);
  EXPECT_EQ(Reader(path).attribute<double>("loss"), 2.0);
  write_gradients(path, true, 3.0, {});
  EXPECT_EQ(Reader(path).attribute<double>("loss"), 3.0);
}

TEST(Resources, SayWhenAndUnderWhat) {
  const std::string now = utc_now();
  int year = 0;
  int second = 0;
  EXPECT_EQ(std::sscanf(now.c_str(), "%4d-%*2d-%*2dT%*2d:%*2d:%2dZ", &year, &second), 2) << now;
  EXPECT_EQ(now.size(), 20U);
  EXPECT_GE(year, 2024);
  EXPECT_EQ(std::ranges::count(hdf5_version(), '.'), 2) << hdf5_version();
  setenv("OMP_HIDUP_TEST", "a=b", 1);
  setenv("SLURM_JWT", "secret", 1);
  setenv("XOMP_HIDUP_TEST", "other", 1);
  int found = 0;
  for (const std::string& variable : run_environment()) {
    found += variable == "OMP_HIDUP_TEST=a=b" ? 1 : 0;
    EXPECT_EQ(variable.find("secret"), std::string::npos);
    EXPECT_FALSE(variable.starts_with("X"));
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace hidup
