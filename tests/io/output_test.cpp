// Errors and outputs around the files: refusals, gradients, the run's environment.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "child.h"
#include "core/check.h"
#include "io/gradient_file.h"
#include "io/output_path.h"
#include "io/resources.h"
#include "io/timing_file.h"
#include "reader.h"
#include "sample.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

// Returns the message of the Error that prepare_outputs() throws; empty where it throws none.
std::string refusal(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs,
                    bool overwrite, ExitCode code) {
  try {
    prepare_outputs(outputs, inputs, overwrite);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

std::string refusal(const std::string& path, bool overwrite) {
  return refusal({{"--out", path}}, {}, overwrite, ExitCode::file);
}

// Returns the refusal where the other file is the model deck.
std::string clash(const std::string& output, const std::string& deck) {
  return refusal({{"--out", output}}, {{"the graph", ""}, {"the model deck", deck}}, true,
                 ExitCode::usage);
}

void write_run(const std::string& path, bool overwrite) {
  TimingFile(path, overwrite, sample::header()).close();
}

TEST(Output, RefusesAnExistingFile) {
  const TemporaryFolder folder;
  const std::string path = folder.write("run.h5", "precious");
  EXPECT_EQ(refusal(path, false), path + ": exists; pass --overwrite or another --out");
  EXPECT_EQ(refusal(path, true), "");
  EXPECT_EQ(std::filesystem::file_size(path), 8U);
}

TEST(Output, CreatesParentFoldersAndNothingElse) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder / "a/b/run.h5", false), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "a/b"));
  EXPECT_EQ(refusal("", false), "");
}

TEST(Output, NamesWhatIsInTheWay) {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "x");
  std::filesystem::create_directory(folder / "folder");
  mkfifo((folder / "pipe").c_str(), 0600);
  EXPECT_EQ(refusal(folder / "folder", true),
            folder / "folder" + ": is a folder, where --out needs a regular file");
  EXPECT_EQ(refusal(folder / "pipe", true),
            folder / "pipe" + ": is a pipe, where --out needs a regular file");
  EXPECT_EQ(refusal("/dev/null", true), "/dev/null: is a device, where --out needs a regular file");
  EXPECT_TRUE(std::filesystem::exists("/dev/null"));
  EXPECT_EQ(refusal(file + "/run.h5", false),
            file + "/run.h5: cannot create the folder " + file + ": Not a directory");
  EXPECT_EQ(refusal("/proc/run.h5", false),
            "/proc/run.h5: cannot create the file: no such file or directory");
}

TEST(Output, IsNoInputByAnyName) {
  const TemporaryFolder folder;
  const std::string deck = folder.write("deck", "precious");
  std::filesystem::create_directory(folder / "below");
  std::filesystem::create_symlink("deck", folder / "link");
  std::filesystem::create_symlink(".", folder / "here");
  std::filesystem::create_hard_link(deck, folder / "hard");
  for (const char* name : {"deck", "./deck", "below/../deck", "link", "hard", "here/link"}) {
    const std::string output = folder / name;
    EXPECT_EQ(clash(output, deck),
              "--out " + output + " is the same file as the model deck " + deck);
  }
  EXPECT_EQ(clash(folder / "other", deck), "");
  EXPECT_EQ(clash(folder / "other", folder / "missing"), "");
}

TEST(Output, IsNoOtherOutputEvenIfThereIsNoneYet) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("later", folder / "dangling");
  std::filesystem::create_symlink(".", folder / "here");
  const std::string out = folder / "later";
  for (const char* name : {"later", "new/../later", "dangling", "here/dangling"}) {
    const std::string gradients = folder / name;
    EXPECT_EQ(
        refusal({{"--out", out}, {"--dump-gradients", gradients}}, {}, false, ExitCode::usage),
        "--dump-gradients " + gradients + " is the same file as --out " + out);
  }
  EXPECT_EQ(
      refusal({{"--out", out}, {"--dump-gradients", folder / "other"}}, {}, false, ExitCode::usage),
      "");
}

TEST(Output, IsNotWhereStandardOutputGoes) {
  const TemporaryFolder folder;
  const std::string path = folder.write("results", "");
  Child child([&](const Child::Report&) {
    dup2(open(path.c_str(), O_WRONLY), STDOUT_FILENO);
    return refusal({{"--out", path}}, {}, true, ExitCode::usage) ==
                   "--out " + path + " is the same file as standard output"
               ? 0
               : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(TimingFile, DoesNotReplaceAFileUnlessToldTo) {
  const TemporaryFolder folder;
  const std::string path = folder.write("run.h5", "precious");
  EXPECT_THROW(write_run(path, false), Error);
  EXPECT_EQ(std::filesystem::file_size(path), 8U);
  write_run(path, true);
  EXPECT_TRUE(Reader(path).is_open());
  EXPECT_EQ(folder.names(), std::vector<std::string>{"run.h5"});
}

// Returns the error of close() for a file to which `event` happened during the run.
std::string said_at_the_end(const std::string& path, const std::function<void()>& event) {
  TimingFile file(path, false, sample::header());
  sample::append(file, 1);
  file.flush();
  event();
  sample::append(file, 2);
  try {
    file.close();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    return error.what();
  }
  return "";
}

TEST(TimingFile, KeepsWhatARunWroteToADeletedFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  EXPECT_EQ(
      said_at_the_end(path, [&] { std::filesystem::remove(path); }),
      path + ": was deleted or moved during the run; what the run wrote is in " + path + ".kept");
  EXPECT_EQ(Reader(path + ".kept").values<int64_t>("/iterations/step"),
            (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"run.h5.kept"});
}

TEST(TimingFile, LeavesAnotherFileThatTookItsName) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  EXPECT_EQ(said_at_the_end(path, [&] { write_run(path, true); }),
            path + ": was replaced by another file during the run; what the run wrote is in " +
                path + ".kept");
  EXPECT_TRUE(Reader(path).values<int64_t>("/iterations/step").empty());
  EXPECT_EQ(Reader(path + ".kept").values<int64_t>("/iterations/step").size(), 2U);
}

TEST(Output, OverwritingLeavesTheOldFileToItsReaders) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  write_run(path, false);
  const Reader old(path);
  write_run(path, true);
  EXPECT_EQ(old.texts("/strategy/text").front(), "format_version: 1\n");
}

TEST(Gradients, AreStoredInTheirShape) {
  const TemporaryFolder folder;
  const std::string path = folder / "gradients.h5";
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
  EXPECT_EQ(folder.names(), std::vector<std::string>{"gradients.h5"});
}

TEST(Gradients, RefuseAnExistingFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "gradients.h5";
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
  for (const char* name : {"SLURM_JWT", "NCCL_NET_TOKEN", "OMPI_MCA_sec_password",
                           "OMPI_MCA_orte_precondition_transports", "OMPI_MCA_orte_hnp_uri",
                           "OMPI_MCA_ess_base_jobid", "OMPI_FILE_LOCATION"}) {
    setenv(name, "secret", 1);
  }
  setenv("NCCL_IB_PKEY", "0", 1);
  setenv("XOMP_HIDUP_TEST", "other", 1);
  int found = 0;
  for (const std::string& variable : run_environment()) {
    found += variable == "OMP_HIDUP_TEST=a=b" || variable == "NCCL_IB_PKEY=0" ? 1 : 0;
    EXPECT_EQ(variable.find("secret"), std::string::npos);
    EXPECT_FALSE(variable.starts_with("X"));
  }
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace hidup
