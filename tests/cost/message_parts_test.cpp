#include "cost/message_parts.h"

#include <gtest/gtest.h>

#include "cost/cost_model.h"
#include "cost/roofline.h"

namespace hidup {
namespace {

const Mesh kThreeAxes = {{"pod", 2}, {"node", 4}, {"gpu", 8}};

std::string parts_text(Opcode opcode, int axis, std::vector<int> inner_axes, double bytes) {
  std::string text;
  const Instruction instruction{.opcode = opcode, .axis = axis, .inner_axes = inner_axes};
  for (const MessagePart& part : message_parts(kThreeAxes, instruction, bytes)) {
    text += std::string(name_of(part.opcode)) + " " + kThreeAxes[part.axis].name + " " +
            std::to_string(static_cast<int64_t>(part.bytes)) + "; ";
  }
  return text;
}

TEST(MessageParts, OfACollectiveAlongOneAxisAreItself) {
  EXPECT_EQ(parts_text(Opcode::all_reduce, 1, {}, 640), "all_reduce node 640; ");
  EXPECT_EQ(parts_text(Opcode::all_to_all, 2, {}, 640), "all_to_all gpu 640; ");
}

TEST(MessageParts, OutsideGoesWhatIsDifferentInside) {
  EXPECT_EQ(parts_text(Opcode::all_reduce, 1, {2}, 640),
            "reduce_scatter gpu 640; all_reduce node 80; all_gather gpu 640; ");
  EXPECT_EQ(parts_text(Opcode::reduce_scatter, 1, {2}, 640),
            "reduce_scatter gpu 640; reduce_scatter node 80; ");
  EXPECT_EQ(parts_text(Opcode::all_gather, 1, {2}, 640),
            "all_gather node 80; all_gather gpu 640; ");
}

TEST(MessageParts, OnThreeAxes) {
  EXPECT_EQ(parts_text(Opcode::all_reduce, 0, {1, 2}, 640),
            "reduce_scatter gpu 640; reduce_scatter node 80; all_reduce pod 20; "
            "all_gather node 80; all_gather gpu 640; ");
  EXPECT_EQ(parts_text(Opcode::all_reduce, 0, {2}, 640),
            "reduce_scatter gpu 640; all_reduce pod 80; all_gather gpu 640; ");
}

// Of n ranks a ring sends (n - 1) / n of the bytes, for a sum twice.
TEST(MessageParts, TakeTheirTimesOneAfterTheOther) {
  const CostModel costs(roofline_profile(
      kThreeAxes, {.flops = 1e12,
                   .memory_bandwidth = 1e12,
                   .links = {{.bandwidth = 1e8}, {.bandwidth = 1e9}, {.bandwidth = 1e11}}}));
  const Instruction sum{.opcode = Opcode::all_reduce, .axis = 1, .inner_axes = {2}};
  const double bytes = 8e9;
  const double inside = 2.0 * 7.0 / 8.0 * bytes / 1e11;
  const double outside = 2.0 * 3.0 / 4.0 * bytes / 8.0 / 1e9;
  EXPECT_NEAR(costs.message(kThreeAxes, sum, bytes).alone_s / (inside + outside), 1.0, 0.005);
}

}  // namespace
}  // namespace hidup
