// Choice of a run's profile on one rank: none, a file's, a cached one, or a new one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "app/profiling.h"
#include "core/file.h"
#include "core/new_file.h"
#include "deck/cluster_deck.h"
#include "fake_ranks/fake_ranks.h"
#include "small_decks.h"
#include "train/dataset.h"

namespace hidup {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

class ObtainProfile : public testing::Test {
 protected:
  ObtainProfile() { setenv("XDG_CACHE_HOME", (cache_ / "").c_str(), 1); }
  ~ObtainProfile() override { unsetenv("XDG_CACHE_HOME"); }
  ObtainProfile(const ObtainProfile&) = delete;
  ObtainProfile& operator=(const ObtainProfile&) = delete;

  Inputs inputs() const {
    return {.decks = {.deck = input_.deck},
            .mesh = input_.mesh,
            .data = open_data(input_.deck),
            .graph = input_.graph};
  }

  std::optional<Profile> obtain(const std::string& choice, int64_t memory = 0) {
    input_.deck.cluster->profile = choice;
    const std::unique_ptr<Communicator> world = make_self_communicator();
    Machine machine{.world = *world,
                    .host = "node1",
                    .communication = {.backend = "mpi"},
                    .device = make_device({.memory = memory})};
    machine.communication.groups.emplace(*world, input_.mesh);
    return obtain_profile(inputs(), machine);
  }

  // Returns the file of the cached profile; empty where no profile is cached.
  std::string kept_file() const {
    const std::filesystem::path folder = cache_ / "hidup";
    if (!std::filesystem::exists(folder)) {
      return "";
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
    return std::filesystem::directory_iterator(folder)->path();
  }

  SmallDecks decks_;
  TemporaryFolder cache_;
  PlanningInput input_ = decks_.read({"cluster.mesh=[{name: ranks, size: 1}]"});
};

std::string read(const std::string& file) {
  return read_text_file(file, "profile");
}

TEST_F(ObtainProfile, NoneWhereNoneIsWanted) {
  EXPECT_FALSE(obtain(""));
  EXPECT_EQ(kept_file(), "");
}

TEST_F(ObtainProfile, MeasuresOnceForAModelAndKeepsIt) {
  const Profile measured = obtain("auto").value();
  EXPECT_THAT(measured.operations, Not(IsEmpty()));
  EXPECT_EQ(measured.model, input_.graph.name());
  const std::string file = kept_file();
  EXPECT_EQ(read(file), print_profile(measured));
  EXPECT_EQ(print_profile(obtain("auto").value()), print_profile(measured)) << "not measured again";
  // Another model gets another file.
  input_ = decks_.read({"cluster.mesh=[{name: ranks, size: 1}]", "model.hidden=16"});
  std::filesystem::remove(file);
  ASSERT_TRUE(obtain("auto"));
  EXPECT_NE(kept_file(), file);
}

TEST_F(ObtainProfile, MeasuresAnewWhereTheKeptOneIsOfNoUse) {
  const std::string text = print_profile(obtain("auto").value());
  const std::string file = kept_file();
  const std::string key = text.substr(0, text.find("launch_s:"));
  std::string cut = text.substr(0, text.size() / 2);
  std::string of_another_device = text;
  of_another_device.replace(text.find("device:"), 7, "device: not ");
  for (const std::string& useless : {std::string("nothing"), cut, of_another_device}) {
    write_text_file(file, useless, true);
    ASSERT_TRUE(obtain("auto"));
    EXPECT_EQ(read(file).substr(0, key.size()), key) << "kept again";
  }
}

TEST_F(ObtainProfile, IsNoneWhereNothingFits) {
  EXPECT_FALSE(obtain("auto", 1000));
  EXPECT_EQ(kept_file(), "");
}

TEST_F(ObtainProfile, IsUsedWhereItCannotBeKept) {
  cache_.write("hidup", "a file, not a folder");
  EXPECT_TRUE(obtain("auto"));
}

TEST_F(ObtainProfile, OfAFileThatFits) {
  const Profile measured = obtain("auto").value();
  const std::string file = decks_.folder.write("mine.yaml", print_profile(measured));
  EXPECT_EQ(print_profile(obtain(file).value()), print_profile(measured));
  std::string other = print_profile(measured);
  other.replace(other.find("device:"), 7, "device: not ");
  decks_.folder.write("mine.yaml", other);
  EXPECT_THAT(error_of([&] { obtain(file); }),
              Pair(ExitCode::usage, HasSubstr("cluster.profile: " + file + " does not fit: ")));
  EXPECT_THAT(error_of([&] { obtain(decks_.folder / "none.yaml"); }),
              Pair(ExitCode::file, HasSubstr("none.yaml")));
}

TEST_F(ObtainProfile, TheKeyNumbersHostsAsTheyAppear) {
  std::vector<int64_t> hosts;
  const std::vector<std::string> names = {"b", "a", "b"};
  run_ranks(3, [&](Communicator& world) {
    const Machine machine{.world = world,
                          .host = names[static_cast<size_t>(world.rank())],
                          .threads = 3,
                          .communication = {.backend = "mpi"},
                          .device = make_device({})};
    const ProfileKey key = profile_key(inputs(), machine);
    if (world.rank() == 0) {
      hosts = key.hosts;
      EXPECT_THAT(key.device, HasSubstr("3 thread(s)"));
    }
  });
  EXPECT_THAT(hosts, ElementsAre(0, 1, 0));
}

}  // namespace
}  // namespace hidup
