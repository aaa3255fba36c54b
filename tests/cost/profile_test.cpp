// Profiles as text, and whether they fit.
#include "cost/profile.h"

#include <gtest/gtest.h>

#include "core/check.h"

namespace hidup {
namespace {

Profile sample_profile() {
  return {
      .key = {.build = "0.1 abc",
              .device = "cpu \"fast\", 2 thread(s)",
              .libraries = {"MPI 4.1", "oneDNN 2"},
              .mesh = {{"node", 2}, {"core", 3}},
              .hosts = {0, 0, 0, 1, 1, 1}},
      .model = "bert",
      .launch_s = 1e-6,
      .signal_s = 2e-5,
      .overhead_s = 3e-4,
      .operations = {{Opcode::matmul, {.flops = 2e6, .bytes = 3e4, .sizes = {10, 20, 30}}, 1e-3},
                     {Opcode::adam, {.flops = 5.0, .bytes = 7.0, .sizes = {4, 99}}, 2e-3}},
      .collectives = {{.opcode = Opcode::all_gather,
                       .axis = 1,
                       .latency_s = 1e-5,
                       .bandwidth = 1e9,
                       .table = {{64, 1e-5, 2e-5, 1.25}, {256, 3e-5, 4e-5, 1.5}}}}};
}

std::string message_of(const std::string& text) {
  try {
    parse_profile(text, "p.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

std::string edited(std::string_view from, std::string_view to) {
  std::string text = print_profile(sample_profile());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// Times of f32 are written as they were before there were other types.
TEST(Profile, KnowsElementTypes) {
  Profile profile = sample_profile();
  profile.operations[0].work.dtype = DType::bf16;
  const std::string text = print_profile(profile);
  const Profile read = parse_profile(text, "p.yaml");
  EXPECT_EQ(read.operations[0].work.dtype, DType::bf16);
  EXPECT_EQ(read.operations[1].work.dtype, DType::f32);
  EXPECT_EQ(print_profile(read), text);
  EXPECT_EQ(print_profile(sample_profile()).find("dtype"), std::string::npos);
  EXPECT_NE(message_of(edited("seconds: 0.001}", "seconds: 0.001, dtype: i32}"))
                .find("dtype: expected f32, bf16 or f16, found i32"),
            std::string::npos);
}

TEST(Profile, IsReadAsItWasWritten) {
  const std::string text = print_profile(sample_profile());
  const Profile read = parse_profile(text, "p.yaml");
  EXPECT_EQ(print_profile(read), text);
  EXPECT_EQ(read.key.device, sample_profile().key.device);
  EXPECT_EQ(read.key.hosts, sample_profile().key.hosts);
  ASSERT_EQ(read.operations.size(), 2U);
  EXPECT_EQ(read.operations[1].opcode, Opcode::adam);
  EXPECT_EQ(read.operations[0].work.sizes, (std::vector<int64_t>{10, 20, 30}));
  EXPECT_DOUBLE_EQ(read.operations[0].seconds, 1e-3);
  ASSERT_EQ(read.collectives.size(), 1U);
  EXPECT_EQ(read.collectives[0].axis, 1U);
  EXPECT_DOUBLE_EQ(read.collectives[0].table[1].slowdown, 1.5);
}

TEST(Profile, OfOneRankHasNoCollectives) {
  Profile profile = sample_profile();
  profile.collectives.clear();
  EXPECT_TRUE(parse_profile(print_profile(profile), "p.yaml").collectives.empty());
}

TEST(Profile, MistakesAreToldWithTheirPlace) {
  EXPECT_NE(message_of("").find("expected a profile"), std::string::npos);
  EXPECT_NE(message_of(edited("launch_s", "lunch_s"))
                .find("p.yaml:12:1: unknown key lunch_s: did you mean launch_s?"),
            std::string::npos)
      << message_of(edited("launch_s", "lunch_s"));
  EXPECT_NE(message_of(edited("op: matmul", "op: matmull")).find("no instruction matmull"),
            std::string::npos);
  EXPECT_NE(message_of(edited("seconds: 0.001", "seconds: -1")).find("seconds: expected a number"),
            std::string::npos);
  EXPECT_NE(message_of(edited("bytes: 256", "bytes: 64")).find("table: expected rising bytes"),
            std::string::npos);
  EXPECT_NE(message_of(edited("slowdown: 1.5", "slowdown: 0.5")).find("slowdown of at least 1"),
            std::string::npos);
  EXPECT_NE(message_of(edited("sizes: [10", "sizes: [ten")).find("whole number"),
            std::string::npos);
}

TEST(Profile, FitsOnlyWhatItWasMeasuredFor) {
  const ProfileKey key = sample_profile().key;
  EXPECT_EQ(profile_mismatch(key, key), "");
  const auto differs = [&](auto change) {
    ProfileKey other = key;
    change(other);
    return profile_mismatch(key, other);
  };
  EXPECT_EQ(differs([](ProfileKey& k) { k.build = "0.2"; }),
            "it was measured with build 0.1 abc, and this run has 0.2");
  EXPECT_NE(differs([](ProfileKey& k) { k.device = "gpu"; }).find("device"), std::string::npos);
  EXPECT_NE(differs([](ProfileKey& k) { k.libraries.pop_back(); }).find("libraries"),
            std::string::npos);
  EXPECT_NE(differs([](ProfileKey& k) { k.mesh[1].size = 4; }).find("core=3"), std::string::npos);
  EXPECT_NE(differs([](ProfileKey& k) { k.hosts[1] = 1; }).find("[0, 1, 0, 1, 1, 1]"),
            std::string::npos);
}

}  // namespace
}  // namespace hidup
