#include "schedule/lanes.h"

#include <gtest/gtest.h>

#include "support.h"

namespace hidup::pipeline {
namespace {

std::string lanes(const Made& made, int width) {
  return draw_lanes(made.pipeline, made.schedule, made.simulation, width);
}

TEST(Lanes, HaveCellsWhereThereIsRoom) {
  EXPECT_EQ(lanes(make("zb-h1", 2, 2), 40),
            "0  0F0 0F1 ....0I0 0W0 0I1 0W1 \n"
            "1  ....1F0 1I0 1F1 1I1 1W0 1W1 \n");
}

TEST(Lanes, HaveLettersWhereThereIsLess) {
  EXPECT_EQ(lanes(make("1f1b", 2, 2), 20),
            "0  FF..B-.B-\n"
            "1  .FB-FB-..\n");
}

TEST(Lanes, SayThatTheyAreCut) {
  EXPECT_EQ(lanes(make("1f1b", 2, 2), 10),
            "0  FF..B-.\n"
            "1  .FB-FB-\n"
            "The lanes end at 7.00 s of 9.00 s: there is no room for more.\n");
}

TEST(Lanes, ShowPairs) {
  const Made made = make("dualpipe-v", 1, 2, {2e6, 2e6, 2e6}, 0, nanoseconds(3));
  const std::string text = lanes(made, 100);
  EXPECT_NE(text.find("+"), std::string::npos) << text;
}

}  // namespace
}  // namespace hidup::pipeline
