// Parts of a timing file that only some runs have: emulated runs, and runs of unequal ranks.
#include <gtest/gtest.h>

#include "core/check.h"
#include "reader.h"
#include "sample.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

TEST(TimingFile, HoldsWhatAnEmulationTakes) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  TimingHeader header = sample::header();
  header.emulation = {.dilation = 4.0};
  TimingFile file(path, false, header);
  EXPECT_THROW(sample::append(file, 1), Error);
  for (const int64_t step : {1, 2}) {
    const std::vector<double> spans = sample::spans(step, 0);
    const Numbers late = {step, 0, 7};
    file.append_iteration(
        sample::iteration(step), {spans, spans, spans},
        {.tokens = sample::loads(step, 1000), .dropped = sample::loads(step, 0)},
        {.wall_s = 0.5 * static_cast<double>(step), .moved_s = 0.25, .late = late});
  }
  file.close();
  const Reader reader(path);
  EXPECT_EQ(reader.attribute<double>("dilation", "/emulation"), 4.0);
  EXPECT_EQ(reader.values<int64_t>("/emulation/late_instructions"), (Numbers{1, 0, 7, 2, 0, 7}));
  EXPECT_EQ(reader.shape("/emulation/late_instructions"), (Extents{2, 3}));
  EXPECT_EQ(reader.values<double>("/emulation/wall_s"), (std::vector<double>{0.5, 1.0}));
  EXPECT_EQ(reader.values<double>("/emulation/moved_s"), (std::vector<double>{0.25, 0.25}));
  EXPECT_EQ(reader.text_attribute("/emulation/wall_s", "unit"), Texts{"s"});
}

TEST(TimingFile, LeavesOutAnEmulationThatThereIsNot) {
  const TemporaryFolder folder;
  TimingFile file(folder / "run.h5", false, sample::header());
  sample::append(file, 1);
  const std::vector<double> spans = sample::spans(2, 0);
  const Numbers late = {1, 2, 3};
  EXPECT_THROW(
      file.append_iteration(sample::iteration(2), {spans, spans, spans},
                            {.tokens = sample::loads(2, 1000), .dropped = sample::loads(2, 0)},
                            {.late = late}),
      Error);
  file.close();
  EXPECT_EQ(H5Lexists(Reader(folder / "run.h5").id(), "emulation", H5P_DEFAULT), 0);
}

TEST(TimingFile, HasSlowRanks) {
  const TemporaryFolder folder;
  TimingFile file(folder / "run.h5", false, sample::header());
  const std::vector<StragglerRow> rows = {
      {.step = 70, .since = 11, .rank = 2, .cause = 1, .slower_by = 0.5},
      {.step = 120, .since = 81, .rank = 2, .over = true}};
  file.append_stragglers(rows);
  EXPECT_THROW(file.append_stragglers({rows.data(), 1}), Error) << "an earlier step";
  const StragglerRow unknown{.step = 130, .cause = 2};
  EXPECT_THROW(file.append_stragglers({&unknown, 1}), Error);
  file.close();
  const Reader reader(folder / "run.h5");
  EXPECT_EQ(reader.text_attribute("/stragglers", "causes"), (Texts{"products", "messages"}));
  EXPECT_EQ(reader.values<int64_t>("/stragglers/step"), (Numbers{70, 120}));
  EXPECT_EQ(reader.values<int64_t>("/stragglers/since"), (Numbers{11, 81}));
  EXPECT_EQ(reader.values<int64_t>("/stragglers/rank"), (Numbers{2, 2}));
  EXPECT_EQ(reader.values<int64_t>("/stragglers/cause"), (Numbers{1, 0}));
  EXPECT_EQ(reader.values<double>("/stragglers/slower_by"), (std::vector<double>{0.5, 0.0}));
  EXPECT_EQ(reader.values<int64_t>("/stragglers/over"), (Numbers{0, 1}));
}

TEST(TimingFile, HasTheChangesOfShares) {
  const TemporaryFolder folder;
  TimingHeader header = sample::header();
  const AdaptRow row{.step = 61,
                     .last = 67,
                     .before_s = 0.5,
                     .after_s = 0.25,
                     .spread_s = 0.01,
                     .kept = true,
                     .shares = {0.5, 0.25, 0.25}};
  {
    TimingFile without(folder / "without.h5", false, header);
    EXPECT_THROW(without.append_adapt(row), Error);
    without.close();
    EXPECT_EQ(H5Lexists(Reader(folder / "without.h5").id(), "adapt", H5P_DEFAULT), 0);
  }
  header.shares = {0.4, 0.3, 0.3};
  TimingFile file(folder / "run.h5", false, header);
  file.append_adapt(row);
  AdaptRow undone = row;
  undone.step = 90;
  undone.kept = false;
  undone.shares = {0.2, 0.4, 0.4};
  file.append_adapt(undone);
  undone.shares.pop_back();
  EXPECT_THROW(file.append_adapt(undone), Error) << "of too few ranks";
  file.close();
  const Reader reader(folder / "run.h5");
  EXPECT_EQ(reader.values<double>("/adapt/shares_at_start"), header.shares);
  EXPECT_EQ(reader.values<int64_t>("/adapt/step"), (Numbers{61, 90}));
  EXPECT_EQ(reader.values<int64_t>("/adapt/last"), (Numbers{67, 67}));
  EXPECT_EQ(reader.values<double>("/adapt/before_s"), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(reader.values<double>("/adapt/after_s"), (std::vector<double>{0.25, 0.25}));
  EXPECT_EQ(reader.values<double>("/adapt/spread_s"), (std::vector<double>{0.01, 0.01}));
  EXPECT_EQ(reader.values<int64_t>("/adapt/kept"), (Numbers{1, 0}));
  EXPECT_EQ(reader.values<double>("/adapt/shares"),
            (std::vector<double>{0.5, 0.25, 0.25, 0.2, 0.4, 0.4}));
}

TEST(TimingFile, HasTheWorkOfRanksThatAreUnlike) {
  const TemporaryFolder folder;
  TimingHeader header = sample::header();
  header.program.distinct = {{0, {10, 0}, {20, 30}}, {2, {11, 0}, {21, 31}}};
  TimingFile(folder / "run.h5", false, header).close();
  const Reader reader(folder / "run.h5");
  EXPECT_EQ(reader.values<int64_t>("/program/distinct/rank"), (Numbers{0, 2}));
  EXPECT_EQ(reader.shape("/program/distinct/flops"), (Extents{2, 2}));
  EXPECT_EQ(reader.values<int64_t>("/program/distinct/flops"), (Numbers{10, 0, 11, 0}));
  EXPECT_EQ(reader.values<int64_t>("/program/distinct/bytes"), (Numbers{20, 30, 21, 31}));
  EXPECT_EQ(reader.text_attribute("/program/distinct/bytes", "unit"), Texts{"bytes"});
}

}  // namespace
}  // namespace hidup
