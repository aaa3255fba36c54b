#include "schedule/csv.h"

#include <gtest/gtest.h>

#include "support.h"

namespace hidup::pipeline {
namespace {

TEST(Csv, ReadsCellsOfAllKinds) {
  const ReadSchedule read = read_csv(
      "0UNSHARD,0F0,0SEND_F0, 0F1 ,0SEND_F1,0RECV_B0,0B0,,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\r\n"
      "1RECV_F0,1F0,1RECV_F1,(1F1;1B0)OVERLAP_F_B,1SEND_B0,1I1,1SEND_B1,1W1,1REDUCE_GRAD\r\n",
      2, 2);
  EXPECT_EQ(read.pipeline.devices, 2);
  EXPECT_EQ(read.pipeline.device_of, (std::vector{0, 1}));
  EXPECT_EQ(write_csv(read.pipeline, read.schedule),
            ",0F0,,0F1,,,0B0,,,0B1,,\n"
            ",1F0,,(1F1;1B0)OVERLAP_F_B,,1I1,,1W1,\n");
}

TEST(Csv, BIsTheInputsGradientWhereThereAreWeights) {
  const ReadSchedule read = read_csv("0F0,0F1,0B0,0B1,0W1", 1, 2);
  EXPECT_EQ(write_csv(read.pipeline, read.schedule), "0F0,0F1,0B0,0I1,0W1\n");
}

// torch.distributed.pipelining's ScheduleInterleavedZeroBubble of an older version: 2 ranks, 4
// stages, 4 microbatches.
TEST(Csv, RowsAreDevicesOfTheirChunks) {
  const ReadSchedule read = read_csv(
      "0F0,0F1,2F0,,2F1,2B0,2W0,0F2,2B1,2W1,0F3,0B0,0W0,2F2,0B1,0W1,2F3,2B2,2W2,2B3,2W3,0B2,0W2,"
      "0B3,0W3\n"
      ",1F0,1F1,3F0,3B0,3F1,3B1,3W0,1F2,1B0,3W1,1F3,1B1,1W0,3F2,3B2,1W1,3F3,3B3,3W2,1B2,3W3,1B3,"
      "1W2,1W3\n",
      4, 4);
  EXPECT_EQ(read.pipeline.device_of, (std::vector{0, 1, 0, 1}));
  const Simulation run =
      simulate(read.pipeline, read.schedule, times_of(read.pipeline, {2e6, 2e6, 2e6}));
  EXPECT_EQ(exact_seconds(run.devices[0].work), 24);
}

}  // namespace
}  // namespace hidup::pipeline
