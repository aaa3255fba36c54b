#include "commands/checkup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hidup {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RankPlace place(const std::string& host, const std::string& device, std::vector<int> cores,
                int threads) {
  RankPlace one{.host = host, .device = device, .cores = std::move(cores), .threads = threads};
  one.physical_cores = static_cast<int>(one.cores.size());
  one.kind = device.starts_with("gpu") ? "cuda" : "cpu";
  one.common = "hidup 1";
  one.libraries = one.kind + " 1";
  return one;
}

TEST(Checkup, FindsNothingWhereAllIsRight) {
  EXPECT_THAT(
      what_looks_wrong(
          {place("a", "gpu 0", {0, 1}, 2), place("a", "gpu 1", {2, 3}, 2),
           place("b", "gpu 0", {0, 1}, 1), place("b", "gpu 1", {0, 1}, 1)},
          {{"HDF5", "1.10.8", "1.10.8"}, {"MPI", "4.1.9", "4.1.10"}, {"yaml-cpp", "0.7.0", ""}}),
      IsEmpty());
}

TEST(Checkup, MoreThreadsThanCores) {
  EXPECT_THAT(
      what_looks_wrong(
          {place("a", "", {0, 1}, 3), place("b", "", {4, 5}, 3), place("b", "", {6, 7}, 2)}, {}),
      ElementsAre(HasSubstr(
          "ranks 0, 1 (2 hosts): computes with 3 threads on 2 core(s): lower OMP_NUM_THREADS")));
  EXPECT_THAT(
      what_looks_wrong(
          {place("a", "", {0, 1}, 1), place("a", "", {0, 1}, 2), place("b", "", {0, 1}, 2)}, {}),
      ElementsAre("ranks 0, 1 (a): compute with 3 threads in all on the 2 core(s) that "
                  "they share"));
}

TEST(Checkup, ThreadsOnBothHalvesOfACore) {
  RankPlace smt = place("a", "", {0, 1, 8, 9}, 3);
  smt.physical_cores = 2;
  EXPECT_THAT(
      what_looks_wrong({smt}, {}),
      ElementsAre(HasSubstr("rank 0 (a): computes with 3 threads on 2 core(s), which SMT")));
  smt.threads = 2;
  EXPECT_THAT(what_looks_wrong({smt}, {}), IsEmpty());
}

TEST(Checkup, RanksThatShareAGpu) {
  const std::vector<RankPlace> places = {place("a", "gpu", {0}, 1), place("a", "gpu", {1}, 1),
                                         place("b", "gpu", {0}, 1)};
  EXPECT_THAT(what_looks_wrong(places, {}),
              ElementsAre(HasSubstr("ranks 0, 1 (a): share one GPU, gpu")));
  EXPECT_THAT(what_looks_wrong({place("a", "CPU", {0}, 1), place("a", "CPU", {1}, 1)}, {}),
              IsEmpty());
}

TEST(Checkup, NoDeviceAndAnotherProgram) {
  std::vector<RankPlace> places = {place("a", "gpu", {0}, 1), place("b", "gpu", {0}, 1)};
  places[1].device = "";
  places[1].device_obstacle = "no GPU is found";
  places[1].common = "hidup 2";
  EXPECT_THAT(what_looks_wrong(places, {}),
              ElementsAre("rank 1 (b): no GPU is found",
                          "rank 1 (b): runs hidup 2, but rank 0 runs hidup 1"));
}

TEST(Checkup, ProgramsForSeveralKindsOfDevices) {
  std::vector<RankPlace> places = {place("a", "gpu", {0}, 1), place("a", "CPU", {1}, 1),
                                   place("b", "CPU", {0}, 1), place("b", "CPU", {1}, 1)};
  EXPECT_THAT(what_looks_wrong(places, {}), IsEmpty()) << "each kind has libraries of its own";
  places[2].libraries = "cpu 2";
  places[3].common = "hidup 2";
  EXPECT_THAT(what_looks_wrong(places, {}),
              ElementsAre("rank 2 (b): loads cpu 2, but rank 1 loads cpu 1",
                          "rank 3 (b): runs hidup 2, but rank 0 runs hidup 1"));
}

TEST(Checkup, LibrariesOlderThanCompiledAgainst) {
  for (const char* older : {"1.9.30", "1.10", "0.11.9"}) {
    EXPECT_THAT(what_looks_wrong({}, {{"HDF5", "1.10.8", older}}),
                ElementsAre(HasSubstr(std::string("HDF5 ") + older + " is loaded, older")));
  }
}

}  // namespace
}  // namespace hidup
