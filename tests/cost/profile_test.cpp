// Profiles as text, and checks that they fit.
#include "cost/profile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/check.h"
#include "cost/cost_model.h"

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

// Replaces a part of a profile's text, and looks for the expected words in the error.
void expect_told(std::string text, std::string_view from, std::string_view to,
                 std::string_view expected) {
  ASSERT_NE(text.find(from), std::string::npos) << from;
  const std::string message = message_of(text.replace(text.find(from), from.size(), to));
  EXPECT_NE(message.find(expected), std::string::npos) << to << ": " << message;
}

// Times of f32 are written without a type, as before there were others.
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

TEST(Profile, KnowsTheAlgorithmsOfCollectives) {
  Profile profile = sample_profile();
  CollectiveTimes windows = profile.collectives[0];
  windows.algorithm = CollectiveAlgorithm::windows;
  windows.table[0].alone_s = 5e-6;
  profile.collectives.push_back(windows);
  const std::string text = print_profile(profile);
  const Profile read = parse_profile(text, "p.yaml");
  EXPECT_EQ(print_profile(read), text);
  const CollectiveTimes* found =
      times_of(read, Opcode::all_gather, 1, CollectiveAlgorithm::windows);
  ASSERT_NE(found, nullptr);
  EXPECT_DOUBLE_EQ(found->table[0].alone_s, 5e-6);
  EXPECT_DOUBLE_EQ(times_of(read, Opcode::all_gather, 1)->table[0].alone_s, 1e-5);
  EXPECT_EQ(times_of(read, Opcode::all_gather, 1, CollectiveAlgorithm::ring), nullptr);
  const auto changed = [&](const std::string& to) {
    return message_of(
        std::string(text).replace(text.find("algorithm: windows"), 18, "algorithm: " + to));
  };
  EXPECT_NE(changed("window").find("algorithm: all_gather has no window"), std::string::npos);
  EXPECT_NE(changed("tree").find("algorithm: all_gather has no tree"), std::string::npos);
  EXPECT_NE(changed("automatic").find("is there already"), std::string::npos);
}

TEST(Profile, OfOneRankHasNoCollectives) {
  Profile profile = sample_profile();
  profile.collectives.clear();
  EXPECT_TRUE(parse_profile(print_profile(profile), "p.yaml").collectives.empty());
}

TEST(Profile, KnowsTheAlgorithmsOfProducts) {
  EXPECT_EQ(print_profile(sample_profile()).find("algorithm"), std::string::npos);
  EXPECT_TRUE(parse_profile(print_profile(sample_profile()), "p.yaml").algorithms.empty());
  Profile profile = sample_profile();
  profile.algorithms = {{{14, 0, 3}, 7}, {{14, 0, 4}, 1}};
  const std::string text = print_profile(profile);
  EXPECT_EQ(parse_profile(text, "p.yaml").algorithms, profile.algorithms);
  const auto told = [&](std::string_view from, std::string_view to, std::string_view expected) {
    expect_told(text, from, to, expected);
  };
  told("algorithm: 7", "algorithm: 8", "algorithm: expected 1 to 7");
  told("algorithm: 7", "algorithm: 0", "algorithm: expected 1 to 7");
  told("14, 0, 4", "14, 0, 3", "algorithms: the product has one already");
  told("[14, 0, 4]", "[14, -1]", "product: expected a whole number");
}

TEST(Profile, KnowsTheRatesOfARank) {
  EXPECT_EQ(print_profile(sample_profile()).find("rates:"), std::string::npos);
  EXPECT_FALSE(parse_profile(print_profile(sample_profile()), "p.yaml").rates);
  Profile profile = sample_profile();
  profile.rates = {.products = {{DType::f32, 3.125e11}, {DType::bf16, 6e11}}, .memory = 4.1e10};
  const std::string text = print_profile(profile);
  const Profile read = parse_profile(text, "p.yaml");
  ASSERT_TRUE(read.rates);
  EXPECT_EQ(read.rates->products, profile.rates->products);
  EXPECT_EQ(read.rates->memory, 4.1e10);
  EXPECT_EQ(print_profile(read), text);
  const auto told = [&](std::string_view from, std::string_view to, std::string_view expected) {
    expect_told(text, from, to, expected);
  };
  told("f32: 3.125e+11", "f32: fast", "p.yaml:16:19: f32: expected a number");
  told("f32: 3.125e+11", "f32: 0", "f32: expected a number above 0");
  told("f32: 3.125e+11", "f32: 0.5", "f32: expected 0 or a number from 1 to 1e+30, found 0.5");
  told("f32: 3.125e+11", "f64: 3.125e+11", "unknown key f64");
  told("f32: 3.125e+11, ", "", "f32 is missing");
  told("memory: 4.1e+10", "memory: -1", "memory: expected a number");
  told("memory: 4.1e+10", "memory: 1e31", "memory: expected 0 or a number from 1 to 1e+30");
  told("memory: 4.1e+10", "memories: 4.1e+10", "unknown key memories; known: products, memory");
}

// Ranks 0, 1 and 4 are of one class; no rank of the second one ran the update.
Profile profile_of_classes() {
  Profile profile = sample_profile();
  profile.key.classes = {0, 0, 1, 1, 0, 1};
  profile.operations[0].by_class = {2.5e-4, 1e-3};
  profile.operations[1].by_class = {2e-3, 0.0};
  profile.rates = {.products = {{DType::f32, 1e11}}, .memory = 1e10};
  profile.rates_by_class = {{.products = {{DType::f32, 4e11}}, .memory = 3e10}, *profile.rates};
  return profile;
}

TEST(Profile, KnowsTheTimesOfClasses) {
  EXPECT_EQ(print_profile(sample_profile()).find("class"), std::string::npos);
  const std::string text = print_profile(profile_of_classes());
  const Profile read = parse_profile(text, "p.yaml");
  EXPECT_EQ(print_profile(read), text);
  EXPECT_EQ(read.key.classes, profile_of_classes().key.classes);
  EXPECT_EQ(read.operations[0].by_class, (std::vector<double>{2.5e-4, 1e-3}));
  EXPECT_EQ(read.rates_by_class[0].memory, 3e10);
  const auto told = [&](std::string_view from, std::string_view to, std::string_view expected) {
    expect_told(text, from, to, expected);
  };
  told("[0, 0, 1, 1, 0, 1]", "[0, 0, 2, 1, 0, 1]",
       "classes: expected numbers in order of appearance, found 2 before 1");
  told("[0, 0, 1, 1, 0, 1]", "[0, 0, 1]", "classes: expected 6, one for each rank");
  told("[0, 0, 1, 1, 0, 1]", "[0, 0, 0, 0, 0, 0]", "of two classes at least");
  told(", by_class: [0.00025, 0.001]", "", "by_class: expected 2, one for each of the classes");
  told("[0.00025, 0.001]", "[0.00025, fast]", "by_class: expected a number");
  told("  - {products: {f32: 4e+11}, memory: 3e+10}\n", "", "rates_by_class: expected 2, found 1");
}

TEST(Profile, OfOneClassHasItsTimes) {
  const Profile first = of_class(profile_of_classes(), 0);
  EXPECT_EQ(first.operations[0].seconds, 2.5e-4);
  EXPECT_EQ(first.operations[1].seconds, 2e-3);
  EXPECT_EQ(first.rates->memory, 3e10);
  EXPECT_TRUE(first.key.classes.empty());
  const Profile second = of_class(profile_of_classes(), 1);
  EXPECT_EQ(second.operations[0].seconds, 1e-3);
  EXPECT_EQ(second.operations[1].seconds, 2e-3) << "of the ranks that ran it";
}

// Three ranks take 1/4 ms and three take 1 ms: together as much as six that take 0.4 ms.
TEST(Profile, OfBalancedRanksHasTheMeanPace) {
  EXPECT_NEAR(balanced(profile_of_classes()).operations[0].seconds, 4e-4, 1e-12);
  EXPECT_NEAR(balanced(profile_of_classes()).operations[1].seconds, 2e-3, 1e-12);
  EXPECT_EQ(print_profile(balanced(sample_profile())), print_profile(sample_profile()));
  const std::vector<double> paces = measured_paces(profile_of_classes());
  ASSERT_EQ(paces.size(), 6U);
  EXPECT_NEAR(paces[0], 3e-3 / 2.25e-3, 1e-12);
  EXPECT_NEAR(paces[2], 1.0, 1e-12);
  EXPECT_TRUE(measured_paces(sample_profile()).empty());
}

TEST(Profile, KnowsWhichAxesShareALink) {
  EXPECT_EQ(print_profile(sample_profile()).find("shared"), std::string::npos);
  EXPECT_TRUE(parse_profile(print_profile(sample_profile()), "p.yaml").shared.empty());
  Profile profile = sample_profile();
  profile.shared = {{1, 2.875}};
  const std::string text = print_profile(profile);
  EXPECT_NE(text.find("\n  - {name: node, size: 2}\n  - {name: core, size: 3, shared: 2.88}\n"),
            std::string::npos)
      << text;
  const Profile read = parse_profile(text, "p.yaml");
  EXPECT_EQ(read.shared, (std::map<size_t, double>{{1, 2.88}}));
  EXPECT_EQ(profile_mismatch(read.key, sample_profile().key), "") << "it is no part of the mesh";
  EXPECT_NE(message_of(edited("size: 2", "size: 2, shared: 0.5"))
                .find("shared: expected 0 or a number from 1 to 1e+06, found 0.5"),
            std::string::npos);
  EXPECT_NE(message_of(edited("size: 2", "size: 2, shared: 0"))
                .find("p.yaml:8:35: shared: expected a number of at least 1"),
            std::string::npos)
      << message_of(edited("size: 2", "size: 2, shared: 0"));
  EXPECT_NE(message_of(edited("size: 2", "size: 2, sharde: 2"))
                .find("unknown key sharde: did you mean shared?"),
            std::string::npos);
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

TEST(Profile, NumbersHaveBounds) {
  const auto told = [](std::string_view from, std::string_view to, std::string_view expected) {
    const std::string message = message_of(edited(from, to));
    EXPECT_NE(message.find(expected), std::string::npos) << to << ": " << message;
  };
  told("launch_s: 1e-06", "launch_s: 1e308",
       "p.yaml:12:11: launch_s: expected 0 or a number from 1e-12 to 1e+06, found 1e308");
  told("seconds: 0.001", "seconds: 1e-320", "seconds: expected 0 or a number from 1e-12");
  told("flops: 2000000", "flops: 1e300", "flops: expected 0 or a number from 0.001 to 1e+30");
  told("sizes: [10", "sizes: [1e300", "sizes: expected a whole number");
  told("sizes: [10", "sizes: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16", "found 18");
  told("bandwidth: 1e+09", "bandwidth: 1e31", "bandwidth: expected 0 or a number");
  told("slowdown: 1.5", "slowdown: 1e7", "slowdown: expected 0 or a number from 1 to 1e+06");
  told("bytes: 256", "bytes: 64.1", "rising bytes, by 1 % at least");
  told("axis: 1", "axis: 2", "axis: 2 is none of the mesh, which has 2, counted from 0");
  told("size: 3", "size: 0", "size: expected at least 1");
  told("size: 3", "size: 4000000000", "2147483648 ranks at most");
  told("hosts: [0, ", "hosts: [", "hosts: expected 6, one for each rank of the mesh, found 5");
  told("op: all_gather", "op: add", "op: add is no collective");
  told("op: adam", "op: all_gather", "op: all_gather is a collective");
}

TEST(Profile, HasWorkThatTakesTime) {
  Profile profile = sample_profile();
  profile.operations[0].work.flops = 0.0;
  EXPECT_EQ(message_of(print_profile(profile)), "");
  profile.operations[1].seconds = 0.0;
  EXPECT_NE(message_of(print_profile(profile)).find("operations: expected at least one that"),
            std::string::npos);
}

// A profile with any number in any place is refused, or gives finite times only.
TEST(Profile, NoNumberLeadsToOneThatIsNone) {
  const std::string text = print_profile(sample_profile());
  size_t accepted = 0;
  for (size_t at = 0; (at = text.find(": ", at)) != std::string::npos; ++at) {
    const size_t begin = at + 2;
    const size_t end = text.find_first_not_of("0123456789.e+-", begin);
    if (end == begin) {
      continue;
    }
    for (const char* number : {"0", "-0", "1e-320", "1e-12", "1e6", "1e30", "1e308", "1e400", "inf",
                               "nan", "9223372036854775807", "99999999999999999999"}) {
      const std::string other = std::string(text).replace(begin, end - begin, number);
      if (!message_of(other).empty()) {
        continue;
      }
      ++accepted;
      const CostModel costs(parse_profile(other, "p.yaml"));
      for (const double work : {1.0, 1e20}) {
        const Work load{.flops = work, .bytes = work, .sizes = {100, 100, 100}};
        for (const Opcode opcode : {Opcode::matmul, Opcode::adam, Opcode::relu}) {
          EXPECT_TRUE(std::isfinite(costs.operation(opcode, load))) << other;
          EXPECT_GT(costs.operation(opcode, load), 0.0) << other;
        }
        const MessageTime time = costs.collective(Opcode::all_gather, 1, work);
        EXPECT_TRUE(std::isfinite(time.alone_s + time.beside_s + time.slowdown)) << other;
      }
    }
  }
  EXPECT_GT(accepted, 20U);
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
  EXPECT_NE(differs([](ProfileKey& k) { k.classes = {0, 1, 1, 1, 1, 1}; }).find("classes"),
            std::string::npos);
}

}  // namespace
}  // namespace hidup
