// Schedules that are refused, each with its message.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "schedule/csv.h"
#include "schedule/verify.h"
#include "support.h"

namespace hidup::pipeline {
namespace {

// Two stages on two devices, two microbatches.
constexpr const char* kRow0 = "0F0,0F1,0B0,0B1";
constexpr const char* kRow1 = "1F0,1B0,1F1,1I1,1W1";

std::string rows(const std::string& first, const std::string& second = kRow1) {
  return first + "\n" + second + "\n";
}

struct Refused {
  std::string text;
  std::string message;
};

void expect_refused(const Refused& row, int chunks, int microbatches) {
  try {
    read_csv(row.text, chunks, microbatches);
    ADD_FAILURE() << "not refused: " << row.text;
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), row.message);
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

TEST(RefusedCsv, TheTextItself) {
  EXPECT_NO_THROW(read_csv(rows(kRow0), 2, 2));
  const std::string form = "expected stage, pass and microbatch, such as 2F3";
  for (const Refused& row : std::vector<Refused>{
           {"", "the file is empty"},
           {"\n\n", "the file is empty"},
           {rows("0F0,0X1,0B0,0B1"), "row 0, cell 1 (0X1): unknown pass X: expected F, B, I or W"},
           {rows("0F0,0FB1,0B0,0B1"),
            "row 0, cell 1 (0FB1): unknown pass FB: expected F, B, I or W"},
           {rows("F0,0F1,0B0,0B1"), "row 0, cell 0 (F0): " + form},
           {rows("0F0,0F1,-1B0,0B1"), "row 0, cell 2 (-1B0): " + form},
           {rows("0F0,0F1,0B0,01"), "row 0, cell 3 (01): " + form},
           {rows("0F0,0F1,0B0x,0B1"), "row 0, cell 2 (0B0x): " + form},
           {rows("0F0,0F1,0B0,0B99999999999"), "row 0, cell 3 (0B99999999999): " + form},
           {rows("0F0,0F1,0B0,0B1\x1b"), "row 0, cell 3 (0B1\\x1b): " + form},
           {rows("0F0,0F,0B0,0B1"), "row 0, cell 1 (0F): the microbatch is missing"},
           {rows("0F0,0F2,0B0,0B1"),
            "row 0, cell 1 (0F2): there is no microbatch 2: the microbatches are 0 to 1"},
           {rows("0F0,2F1,0B0,0B1"),
            "row 0, cell 1 (2F1): there is no stage 2: the stages are 0 to 1"}}) {
    expect_refused(row, 2, 2);
  }
}

TEST(RefusedCsv, Overlaps) {
  const std::string form = "expected (TASK;TASK)OVERLAP_F_B";
  const std::string passes = "expected a forward and a backward pass";
  for (const Refused& row : std::vector<Refused>{
           {rows("0F0,(0F1;0B0,0B1"), "row 0, cell 1 ((0F1;0B0): " + form},
           {rows("0F0,(0F1;0B0),0B1"), "row 0, cell 1 ((0F1;0B0)): " + form},
           {rows("0F0,(0F1;0B0)OVERLAP,0B1"), "row 0, cell 1 ((0F1;0B0)OVERLAP): " + form},
           {rows("0F0,(0F1)OVERLAP_F_B,0B0,0B1"), "row 0, cell 1 ((0F1)OVERLAP_F_B): " + passes},
           {rows("(0F0;0F1)OVERLAP_F_B,0B0,0B1"),
            "row 0, cell 0 ((0F0;0F1)OVERLAP_F_B): " + passes},
           {rows("0F0,(0F1;)OVERLAP_F_B,0B0,0B1"),
            "row 0, cell 1 ((0F1;)OVERLAP_F_B): expected stage, pass and microbatch, such as 2F3"},
           {rows("0F0,(0F1;0UNSHARD)OVERLAP_F_B,0B0,0B1"),
            "row 0, cell 1 ((0F1;0UNSHARD)OVERLAP_F_B): unknown pass UNSHARD: expected F, B, I or "
            "W"},
           {rows(kRow0, "1F0,1B0,(1F1;1B1)OVERLAP_F_B"),
            "row 1, cell 2 ((1F1;1B1)OVERLAP_F_B): 1B1 needs 1F1 of the same cell"}}) {
    expect_refused(row, 2, 2);
  }
}

TEST(RefusedCsv, Tasks) {
  for (const Refused& row : std::vector<Refused>{
           {rows("0F0,0F1,0B0"), "row 0: the task 0B1 is missing"},
           {rows("0F0,0B0,0B1"), "row 0: the task 0F1 is missing"},
           {rows("0F0,0F1,0B0,0B1", ""), "no row has a task of stage 1"},
           {rows("0F0,0F1,0B0,0B1,0F0"),
            "row 0, cell 4 (0F0): the same task stands in cell 0 already"},
           {rows(kRow0, "1F0,1B0,1I0,1F1,1B1"),
            "row 1, cell 2 (1B0): the same task stands in cell 1 already"},
           {rows("0F0,0F1,0B0,0B1,1F0"), "row 1, cell 0 (1F0): stage 1 lies in row 0"},
           {rows(kRow0, "1F0,1B0,1F1,1I1"), "row 1, cell 3 (1I1): the weights pass 1W1 is missing"},
           {rows(kRow0, "1F0,1B0,1I1,1F1,1W1"),
            "row 1, cell 2 (1I1): 1I1 needs 1F1, which follows in cell 3"},
           {rows(kRow0, "1F0,1B0,1F1,1W1,1I1"),
            "row 1, cell 3 (1W1): 1W1 needs 1I1, which follows in cell 4"},
           {rows("0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0"),
            "rows wait for each other: row 0, cell 1 (0B0) waits for 1B0 in cell 3 of row 1; row "
            "1, "
            "cell 0 (1F1) waits for 0F1 in cell 2 of row 0"}}) {
    expect_refused(row, 2, 2);
  }
  // Row 0 waits, too, but nobody waits for it.
  expect_refused({"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n2F1,2B1,2F0,2B0\n",
                  "rows wait for each other: row 1, cell 1 (1B0) waits for 2B0 in cell 3 of row 2; "
                  "row 2, cell 0 (2F1) waits for 1F1 in cell 2 of row 1"},
                 3, 2);
}

TEST(RefusedCsv, Moves) {
  const std::string row1 = "1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1";
  for (const Refused& row : std::vector<Refused>{
           {rows("1UNSHARD,0F0,0F1,0B0,0B1"), "row 0, cell 0 (1UNSHARD): stage 1 lies in row 1"},
           {rows("0UNSHARD3,0F0,0F1,0B0,0B1"),
            "row 0, cell 0 (0UNSHARD3): UNSHARD has no microbatch"},
           {rows("0F0,0F1,0B0,0REDUCE_GRAD,0B1"),
            "row 0, cell 3 (0REDUCE_GRAD): 0B1 adds to the gradients later, in cell 4"},
           {rows(kRow0, "1F0,1B0,1F1,1I1,1REDUCE_GRAD,1W1"),
            "row 1, cell 4 (1REDUCE_GRAD): 1W1 adds to the gradients later, in cell 5"},
           {rows("0F0,0SEND_F,0F1,0B0,0B1"),
            "row 0, cell 1 (0SEND_F): SEND_F needs a microbatch from 0 to 1"},
           {rows("0F0,0SEND_F7,0F1,0B0,0B1"),
            "row 0, cell 1 (0SEND_F7): SEND_F needs a microbatch from 0 to 1"},
           {rows("0F0,0F1,0B0,0SEND_B0,0B1"),
            "row 0, cell 3 (0SEND_B0): stage 0 has no neighbour to send to"},
           {rows("0RECV_F0,0F0,0F1,0B0,0B1"),
            "row 0, cell 0 (0RECV_F0): stage 0 has no neighbour to receive from"},
           {rows("0SEND_F0,0F0,0F1,0B0,0B1", row1),
            "row 0, cell 0 (0SEND_F0): 0F0 stands behind it, in cell 1"},
           {rows("0F0,0SEND_F0,0F1,0B0,0RECV_B0,0B1", row1),
            "row 0, cell 4 (0RECV_B0): 0B0 stands before it, in cell 3"},
           {rows("0F0,0SEND_F0,0SEND_F0,0F1,0B0,0B1", row1),
            "row 0, cell 1 (0SEND_F0): the result moves more than once"},
           {rows("0F0,0SEND_F0,0F1,0B0,0B1", row1),
            "row 1, cell 3 (1SEND_B0): 0RECV_B0 is missing in row 0"},
           {rows("0F0,0F1,0SEND_F1,0RECV_B0,0B0,0B1", row1),
            "row 0, cell 2 (0SEND_F1): 1RECV_F1 is missing in row 1"}}) {
    expect_refused(row, 2, 2);
  }
  expect_refused(
      {"0F0,0SEND_F0,1F0,1B0,0B0", "row 0, cell 1 (0SEND_F0): stages 0 and 1 lie in the same row"},
      2, 1);
}

// Schedules that no CSV file gives.
TEST(RefusedSchedules, TasksOutOfRangeAndLimits) {
  const ReadSchedule good = read_csv(rows(kRow0), 2, 2);
  const auto message = [&](const Schedule& schedule, const std::vector<Limits>& limits) {
    try {
      verify(good.pipeline, schedule, limits);
      return std::string("not refused");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return std::string(error.what());
    }
  };
  EXPECT_EQ(message(good.schedule, {{.live = 2}, {.live = 1}}), "not refused");
  EXPECT_EQ(message(good.schedule, {{.live = 1}, {.live = 1}}),
            "row 0, cell 1 (0F1): 2 microbatches are live, 1 may be");
  EXPECT_EQ(message(good.schedule, {{.held = 1}, {}}),
            "row 0, cell 1 (0F1): 2 microbatches wait for a backward or weights pass, 1 may");
  Schedule changed = good.schedule;
  changed[0][0].tasks[0].chunk = 5;
  EXPECT_EQ(message(changed, {}),
            "row 0, cell 0 (5F0): there is no stage 5: the stages are 0 to 1");
  changed = good.schedule;
  changed[0][2].tasks[0].microbatch = -1;
  EXPECT_EQ(message(changed, {}),
            "row 0, cell 2 (0B-1): there is no microbatch -1: the microbatches are 0 to 1");
  changed = good.schedule;
  std::swap(changed[0], changed[1]);
  EXPECT_EQ(message(changed, {}), "row 0, cell 0 (1F0): stage 1 lies in row 1");
  changed = good.schedule;
  changed.pop_back();
  EXPECT_THROW(verify(good.pipeline, changed), Error);
}

}  // namespace
}  // namespace hidup::pipeline
