#include "io/timing_file.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "child.h"
#include "core/check.h"
#include "reader.h"
#include "sample.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

TEST(TimingFile, HoldsTheHeader) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  TimingFile(path, false, sample::header()).close();

  const Reader reader(path);
  EXPECT_EQ(reader.attribute<int64_t>("format_version"), 1);
  EXPECT_EQ(reader.attribute<int64_t>("git_dirty"), 1);
  EXPECT_EQ(reader.attribute<int64_t>("world_size"), 3);
  EXPECT_EQ(reader.attribute<double>("unigram_entropy"), 3.2);
  EXPECT_EQ(reader.text_attribute("/", "program_version"), Texts{"0.1.0"});
  EXPECT_EQ(reader.text_attribute("/", "started_at"), Texts{"2026-01-31T23:59:59Z"});
  EXPECT_EQ(reader.text_attribute("/", "hostnames"), (Texts{"node-0", "node-0", "node-1"}));
  EXPECT_EQ(reader.text_attribute("/", "environment"), Texts{});
  EXPECT_EQ(reader.text_attribute("/strategy", "name"), Texts{"dp"});
  EXPECT_EQ(reader.text_attribute("/strategy", "hash"), Texts{"89abcdef01234567"});
  EXPECT_EQ(reader.texts("/strategy/text"), Texts{"format_version: 1\n"});
  EXPECT_EQ(reader.texts("/input/model_deck"), Texts{"model:\n  layers: 2  # größer\n"});
  EXPECT_EQ(reader.texts("/input/cluster_deck"), Texts{"cluster: {}\n"});
  EXPECT_EQ(reader.texts("/input/resolved"), Texts{"model:\n  layers: 2\n"});
  EXPECT_EQ(reader.texts("/program/text"), Texts{"0 embed\n1 all_reduce embed.grad\n"});
  EXPECT_EQ(reader.texts("/program/name"), (Texts{"embed", "embed.grad"}));
  EXPECT_EQ(reader.texts("/program/kind"), (Texts{"compute", "collective"}));
  EXPECT_EQ(reader.texts("/program/stream"), (Texts{"compute", "comm"}));
  EXPECT_EQ(reader.texts("/program/phase"), (Texts{"forward", "backward"}));
  EXPECT_EQ(reader.texts("/program/collective"), (Texts{"", "all_reduce"}));
  EXPECT_EQ(reader.texts("/program/algorithm"), (Texts{"", "ring"}));
  EXPECT_EQ(reader.values<int64_t>("/program/microbatch"), (Numbers{0, -1}));
  EXPECT_EQ(reader.values<int64_t>("/program/flops"), (Numbers{4096, 0}));
  EXPECT_EQ(reader.values<int64_t>("/program/bytes"), (Numbers{512, 1024}));
  EXPECT_EQ(reader.values<int64_t>("/ranks/peak_bytes"), (Numbers{300, 301, 302}));
  EXPECT_EQ(reader.values<int64_t>("/ranks/parameter_bytes"), (Numbers{100, 101, 102}));
  EXPECT_EQ(reader.shape("/iterations/step"), Extents{0});
  EXPECT_EQ(reader.shape("/ranks/comm_s"), (Extents{0, 3}));
  EXPECT_EQ(reader.shape("/experts/tokens"), (Extents{0, 2, 5}));
  EXPECT_EQ(reader.attribute<int64_t>("layers", "/experts"), 2);
}

TEST(TimingFile, LeavesOutAnEntropyThatIsUnknown) {
  const TemporaryFolder folder;
  TimingHeader header = sample::header();
  header.run.unigram_entropy.reset();
  TimingFile(folder / "run.h5", false, header).close();
  EXPECT_EQ(H5Aexists(Reader(folder / "run.h5").id(), "unigram_entropy"), 0);
}

TEST(TimingFile, LeavesOutExpertsThatThereAreNot) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  TimingHeader header = sample::header();
  header.experts = {};
  TimingFile file(path, false, header);
  const std::vector<double> spans = sample::spans(1, 0);
  file.append_iteration(sample::iteration(1), {spans, spans, spans}, {});
  file.close();
  const Reader reader(path);
  EXPECT_EQ(H5Lexists(reader.id(), "experts", H5P_DEFAULT), 0);
  EXPECT_EQ(reader.shape("/iterations/step"), Extents{1});
}

TEST(TimingFile, LeavesOutValidationThatThereIsNot) {
  const TemporaryFolder folder;
  TimingHeader header = sample::header();
  header.validation = false;
  TimingFile file(folder / "run.h5", false, header);
  EXPECT_THROW(file.append_validation({.step = 1, .loss = 2.0}), Error);
  file.close();
  EXPECT_EQ(H5Lexists(Reader(folder / "run.h5").id(), "validation", H5P_DEFAULT), 0);
}

TEST(TimingFile, HoldsTheValidationLosses) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  TimingFile file(path, false, sample::header());
  file.append_validation({.step = 100, .loss = 2.5, .accuracy = 0.25});
  file.flush();
  file.append_validation({.step = 200, .loss = 2.25, .accuracy = 0.5});
  EXPECT_THROW(file.append_validation({.step = 200, .loss = 2.25, .accuracy = 0.5}), Error);
  file.close();
  const Reader reader(path);
  EXPECT_EQ(reader.values<int64_t>("/validation/step"), (Numbers{100, 200}));
  EXPECT_EQ(reader.values<double>("/validation/loss"), (std::vector<double>{2.5, 2.25}));
  EXPECT_EQ(reader.text_attribute("/validation/loss", "unit"), Texts{"nat"});
  EXPECT_EQ(H5Lexists(reader.id(), "validation/accuracy", H5P_DEFAULT), 0);
  EXPECT_EQ(H5Lexists(reader.id(), "iterations/accuracy", H5P_DEFAULT), 0);
}

TEST(TimingFile, HoldsTheAccuracyOfImages) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  TimingHeader header = sample::header();
  header.images = true;
  TimingFile file(path, false, header);
  sample::append(file, 1);
  file.append_validation({.step = 1, .loss = 2.5, .accuracy = 0.25});
  file.close();
  const Reader reader(path);
  EXPECT_EQ(reader.values<double>("/validation/accuracy"), std::vector<double>{0.25});
  EXPECT_EQ(reader.values<double>("/iterations/accuracy"), std::vector<double>{0.5});
  EXPECT_EQ(reader.text_attribute("/iterations/accuracy", "unit"), Texts{"1"});
}

TEST(TimingFile, NamesTheFileThatItGoesOnFrom) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "in");
  std::filesystem::create_directory(folder / "out");
  TimingFile(folder / "out/first.h5", false, sample::header()).close();
  const Reader first(folder / "out/first.h5");
  EXPECT_EQ(H5Aexists(first.id(), "continued_from"), 0);
  EXPECT_EQ(H5Aexists(first.id(), "continued_at_step"), 0);
  TimingHeader header = sample::header();
  header.run.continued_from = folder / "in/../out/first.h5";
  header.run.continued_at_step = 300;
  TimingFile(folder / "out/second.h5", false, header).close();
  TimingFile(folder / "in/third.h5", false, header).close();
  const Reader second(folder / "out/second.h5");
  EXPECT_EQ(second.text_attribute("/", "continued_from"), Texts{"first.h5"});
  EXPECT_EQ(second.attribute<int64_t>("continued_at_step"), 300);
  EXPECT_EQ(Reader(folder / "in/third.h5").text_attribute("/", "continued_from"),
            Texts{"../out/first.h5"});
}

// Three flushes cross a chunk's border, and the rest follows at the end.
TEST(TimingFile, HoldsEveryRowInOrder) {
  constexpr int64_t kSteps = 2500;
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  TimingFile file(path, false, sample::header());
  for (int64_t step = 1; step <= kSteps; ++step) {
    sample::append(file, step);
    if (step % 700 == 0) {
      file.flush();
    }
  }
  file.close();

  const Reader reader(path);
  ASSERT_EQ(reader.shape("/ranks/comm_s"), (Extents{kSteps, 3}));
  const auto steps = reader.values<int64_t>("/iterations/step");
  const auto wall = reader.values<double>("/iterations/wall_s");
  const auto loss = reader.values<double>("/iterations/loss");
  const auto tokens = reader.values<int64_t>("/iterations/tokens");
  const auto lr = reader.values<double>("/iterations/lr");
  const auto grad_norm = reader.values<double>("/iterations/grad_norm");
  const auto skipped = reader.values<int64_t>("/iterations/skipped");
  const auto balance = reader.values<double>("/iterations/balance_loss");
  const auto z = reader.values<double>("/iterations/z_loss");
  ASSERT_EQ(steps.size(), kSteps);
  for (int64_t step = 1; step <= kSteps; ++step) {
    const size_t i = static_cast<size_t>(step) - 1;
    const Iteration expected = sample::iteration(step);
    ASSERT_EQ(steps[i], step);
    ASSERT_EQ(wall[i], expected.wall_s);
    ASSERT_EQ(loss[i], expected.loss);
    ASSERT_EQ(tokens[i], expected.tokens);
    ASSERT_EQ(lr[i], expected.lr);
    ASSERT_EQ(grad_norm[i], expected.grad_norm);
    ASSERT_EQ(skipped[i], expected.skipped ? 1 : 0);
    ASSERT_EQ(balance[i], expected.balance_loss);
    ASSERT_EQ(z[i], expected.z_loss);
  }
  const char* names[] = {"/ranks/compute_s", "/ranks/comm_s", "/ranks/exposed_comm_s"};
  for (int which = 0; which < 3; ++which) {
    const auto values = reader.values<double>(names[which]);
    for (int64_t step = 1; step <= kSteps; ++step) {
      const auto row = values.begin() + (step - 1) * sample::kRanks;
      ASSERT_EQ(std::vector<double>(row, row + sample::kRanks), sample::spans(step, which));
    }
  }
}

// The rows are blocks, more than a chunk of them.
TEST(TimingFile, HoldsTheLoadsOfTheExperts) {
  constexpr int64_t kSteps = 1900;
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  TimingFile file(path, false, sample::header());
  Numbers expected_tokens;
  Numbers expected_dropped;
  for (int64_t step = 1; step <= kSteps; ++step) {
    sample::append(file, step);
    if (step == 3 || step == 1000) {
      file.flush();
    }
    const Numbers tokens = sample::loads(step, 1000);
    const Numbers dropped = sample::loads(step, 0);
    expected_tokens.insert(expected_tokens.end(), tokens.begin(), tokens.end());
    expected_dropped.insert(expected_dropped.end(), dropped.begin(), dropped.end());
  }
  file.close();

  const Reader reader(path);
  ASSERT_EQ(reader.shape("/experts/tokens"), (Extents{kSteps, 2, 5}));
  ASSERT_EQ(reader.shape("/experts/dropped"), (Extents{kSteps, 2, 5}));
  EXPECT_TRUE(reader.values<int64_t>("/experts/tokens") == expected_tokens);
  EXPECT_TRUE(reader.values<int64_t>("/experts/dropped") == expected_dropped);
  EXPECT_EQ(reader.text_attribute("/experts/tokens", "unit"), Texts{"tokens"});
  EXPECT_EQ(reader.text_attribute("/experts/dropped", "unit"), Texts{"tokens"});
}

TEST(TimingFile, OrdersTheTimelineByStep) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  TimingFile file(path, false, sample::header());
  // The rows come as if gathered from ranks that each buffered two steps.
  file.append_timeline({{{1, 0, 7, 0.1, 0.2}, {2, 0, 7, 0.5, 0.6}, {1, 1, 8, 0.3, 0.4}}});
  file.append_timeline({{{3, 0, 9, 0.7, 0.8}}});
  EXPECT_THROW(file.append_timeline({{{2, 0, 9, 0.7, 0.8}}}), Error);
  file.close();

  const Reader reader(path);
  EXPECT_EQ(reader.values<int64_t>("/timeline/step"), (Numbers{1, 1, 2, 3}));
  EXPECT_EQ(reader.values<int64_t>("/timeline/rank"), (Numbers{0, 1, 0, 0}));
  EXPECT_EQ(reader.values<int64_t>("/timeline/instruction"), (Numbers{7, 8, 7, 9}));
  EXPECT_EQ(reader.values<double>("/timeline/start_s"), (std::vector<double>{0.1, 0.3, 0.5, 0.7}));
  EXPECT_EQ(reader.values<double>("/timeline/end_s"), (std::vector<double>{0.2, 0.4, 0.6, 0.8}));
}

herr_t check_dataset(hid_t root, const char* name, const H5O_info_t* info, void* count) {
  if (info->type != H5O_TYPE_DATASET) {
    return 0;
  }
  ++*static_cast<int*>(count);
  EXPECT_GT(H5Aexists_by_name(root, name, "unit", H5P_DEFAULT), 0) << name;
  const hid_t dataset = H5Dopen2(root, name, H5P_DEFAULT);
  const hid_t space = H5Dget_space(dataset);
  if (H5Sget_simple_extent_ndims(space) > 0) {
    hsize_t extents[3] = {};
    hsize_t limits[3] = {};
    H5Sget_simple_extent_dims(space, extents, limits);
    EXPECT_EQ(limits[0], H5S_UNLIMITED) << name;
    const hid_t creation = H5Dget_create_plist(dataset);
    EXPECT_EQ(H5Pget_layout(creation), H5D_CHUNKED) << name;
    H5Pclose(creation);
  }
  H5Sclose(space);
  H5Dclose(dataset);
  return 0;
}

TEST(TimingFile, EveryDatasetHasAUnitAndEveryArrayCanGrow) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  TimingFile(path, false, sample::header()).close();
  const Reader reader(path);
  int datasets = 0;
  H5Ovisit2(reader.id(), H5_INDEX_NAME, H5_ITER_NATIVE, check_dataset, &datasets, H5O_INFO_BASIC);
  EXPECT_EQ(datasets, 43);
  EXPECT_EQ(reader.text_attribute("/iterations/wall_s", "unit"), Texts{"s"});
  EXPECT_EQ(reader.text_attribute("/ranks/peak_bytes", "unit"), Texts{"bytes"});
  EXPECT_EQ(reader.text_attribute("/program/flops", "unit"), Texts{"flop"});
  EXPECT_EQ(reader.text_attribute("/program/name", "unit"), Texts{""});
  EXPECT_EQ(reader.text_attribute("/iterations/step", "unit"), Texts{"1"});
}

TEST(TimingFile, ReportsMisuse) {
  const TemporaryFolder folder;
  TimingFile file(folder / "run.h5", false, sample::header());
  sample::append(file, 5);
  EXPECT_THROW(sample::append(file, 5), Error);
  const std::vector<double> two_ranks = {0.1, 0.2};
  const std::vector<double> three_ranks = sample::spans(6, 0);
  const Numbers loads = sample::loads(6, 0);
  const Numbers short_loads = {1, 2};
  EXPECT_THROW(file.append_iteration(sample::iteration(6), {two_ranks, two_ranks, two_ranks},
                                     {.tokens = loads, .dropped = loads}),
               Error);
  EXPECT_THROW(
      file.append_iteration(sample::iteration(6), {three_ranks, three_ranks, three_ranks}, {}),
      Error);
  EXPECT_THROW(file.append_iteration(sample::iteration(6), {three_ranks, three_ranks, three_ranks},
                                     {.tokens = loads, .dropped = short_loads}),
               Error);
  EXPECT_THROW(file.append_iteration(sample::iteration(6), {three_ranks, three_ranks, three_ranks},
                                     {.tokens = short_loads, .dropped = loads}),
               Error);
  file.close();
  file.close();
  EXPECT_THROW(sample::append(file, 7), Error);
}

TEST(TimingFile, IsCompleteWithoutClose) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  {
    TimingFile file(path, false, sample::header());
    sample::append(file, 1);
  }
  EXPECT_EQ(Reader(path).values<int64_t>("/iterations/step"), Numbers{1});
}

// The second row is shown without a third one and without another call of the writer.
TEST(TimingFile, ShowsRowsToAReaderDuringALongStep) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  Child writer([&](const Child::Report& report) {
    TimingFile file(path, false, sample::header());
    sample::append(file, 1);
    file.flush();
    sample::append(file, 2);
    report(2);
    pause();
    return 0;
  });
  ASSERT_EQ(writer.next(), 2);
  Numbers steps;
  for (int attempt = 0; attempt < 3000 && steps.size() < 2; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const Reader reader(path);
    ASSERT_TRUE(reader.is_open());
    steps = reader.values<int64_t>("/iterations/step");
    ASSERT_GE(steps.size(), 1U);
  }
  EXPECT_EQ(steps, (Numbers{1, 2}));
}

TEST(TimingFile, KeepsFlushedRowsWhenKilled) {
  const TemporaryFolder folder;
  for (int64_t enough : {1, 20, 200, 2000}) {
    const std::string path = folder / std::to_string(enough) + ".h5";
    Child writer([&](const Child::Report& report) -> int {
      TimingFile file(path, false, sample::header());
      for (int64_t step = 1;; ++step) {
        sample::append(file, step);
        file.flush();
        report(step);
      }
    });
    int64_t flushed = 0;
    while (flushed < enough) {
      flushed = writer.next();
      ASSERT_GT(flushed, 0);
    }
    writer.kill();

    const Reader reader(path);
    ASSERT_TRUE(reader.is_open());
    const auto steps = reader.values<int64_t>("/iterations/step");
    const auto loss = reader.values<double>("/iterations/loss");
    const auto comm = reader.values<double>("/ranks/comm_s");
    ASSERT_GE(steps.size(), static_cast<size_t>(flushed));
    ASSERT_GE(loss.size(), static_cast<size_t>(flushed));
    ASSERT_GE(comm.size(), static_cast<size_t>(flushed * sample::kRanks));
    for (int64_t step = 1; step <= flushed; ++step) {
      const size_t i = static_cast<size_t>(step) - 1;
      ASSERT_EQ(steps[i], step);
      ASSERT_EQ(loss[i], sample::iteration(step).loss);
      ASSERT_EQ(comm[i * sample::kRanks], sample::spans(step, 1)[0]);
    }
  }
}

}  // namespace
}  // namespace hidup
