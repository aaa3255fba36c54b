// Classes of devices by ranks, by host and by count.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "deck_text.h"

#include "deck/cluster_deck.h"
#include "deck/device_classes.h"

namespace hidup {
namespace {

const std::string kFour = "cluster.mesh=[{name: ranks, size: 4, bandwidth: 1GB/s}]";

Deck with(const std::string& devices, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"cluster.mesh=[{name: ranks, size: auto, bandwidth: 1GB/s}]",
                           "cluster.devices=" + devices});
  return parse(kModel, kCluster, more);
}

std::string problems(const std::string& devices) {
  return problems_of(kModel, kCluster, {kFour, "cluster.devices=" + devices});
}

TEST(Devices, RanksAreRanges) {
  EXPECT_EQ(parse_ranks("0-3, 7,5"), (std::vector<int64_t>{0, 1, 2, 3, 5, 7}));
  EXPECT_EQ(print_ranks({0, 1, 2, 3, 5, 7}), "0-3, 5, 7");
  for (const char* wrong : {"", "a", "1-", "-1", "3-2", "1,,2", "1-2-3", "1 2", "1, 0-2", "1.5",
                            "0-99999999999", "0-2147483646"}) {
    EXPECT_EQ(parse_ranks(wrong), std::nullopt) << wrong;
  }
}

TEST(Devices, AreTheSameHoweverTheirRanksAreNamed) {
  const std::vector<size_t> expected = {0, 0, 1, 1};
  EXPECT_EQ(classes_of_ranks(*with("[{count: 2}, {count: 2}]").cluster, 4), expected);
  EXPECT_EQ(classes_of_ranks(*with("[{ranks: 0-1}, {ranks: '2, 3'}]").cluster, 4), expected);
  EXPECT_EQ(classes_of_ranks(*with("[{count: 2}, {ranks: 2-3}]").cluster, 4), expected);
  const Deck by_host = with("[{host: big-*}, {host: small, count: 2}]");
  const Deck found = with_hosts(by_host, {"big-1", "big-2", "small", "small"});
  EXPECT_EQ(classes_of_ranks(*found.cluster, 4), expected);
  EXPECT_EQ(resolved_yaml(parse_resolved("again", resolved_yaml(found))), resolved_yaml(found));
  const Deck mixed = with_hosts(by_host, {"small", "big-1", "small", "big-1"});
  EXPECT_EQ(classes_of_ranks(*mixed.cluster, 4), (std::vector<size_t>{1, 0, 1, 0}));
  EXPECT_EQ(classes_of_ranks(*with("[{ranks: 1}, {count: 3}]").cluster, 4),
            (std::vector<size_t>{1, 0, 1, 1}));
}

TEST(Devices, OfHostsFollowThemToOtherNumbers) {
  EXPECT_FALSE(counts_ranks(*with("[]").cluster));
  EXPECT_TRUE(counts_ranks(*with("[{count: 2}, {host: b}]").cluster));
  EXPECT_TRUE(counts_ranks(*with("[{ranks: 0-1}, {host: b}]").cluster));
  const Deck by_host = with("[{host: b}, {host: a}]");
  EXPECT_FALSE(counts_ranks(*by_host.cluster));
  const Deck ordered = with_order(with_hosts(by_host, {"a", "b", "a", "b"}), {0, 2, 1, 3});
  EXPECT_EQ(classes_of_ranks(*ordered.cluster, 4), (std::vector<size_t>{1, 1, 0, 0}));
}

TEST(Devices, HaveTheValuesOfTheDeviceWhereTheyLackThem) {
  const Deck deck = with("[{flops: 1TFLOPS, memory: 4GiB, threads: 3}, {kind: cuda}]",
                         {"cluster.device.flops=2TFLOPS", "cluster.device.flops_16bit=8TFLOPS",
                          "cluster.device.memory_bandwidth=100GB/s"});
  const std::vector<DeviceClass> devices = device_classes(*deck.cluster);
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].flops, 1e12);
  EXPECT_EQ(devices[0].flops_16bit, std::nullopt) << "another device's rate says nothing";
  EXPECT_EQ(devices[0].memory_bandwidth, std::nullopt);
  EXPECT_EQ(devices[0].memory, int64_t{4} << 30);
  EXPECT_EQ(devices[0].kind, "cpu");
  EXPECT_EQ(devices[1].flops_16bit, 8e12);
  EXPECT_EQ(devices[1].memory_bandwidth, 1e11);
  EXPECT_EQ(devices[1].memory, int64_t{2} << 30);
  EXPECT_EQ(devices[1].kind, "cuda");
  EXPECT_EQ(device_of_rank(*deck.cluster, 0, 2).threads, 3);
  EXPECT_EQ(device_of_rank(*deck.cluster, 0, 3).threads, std::nullopt) << "they do not fit";
}

TEST(Devices, ThatDoNotFitAreRefused) {
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(problems("[{ranks: 0-1}, {ranks: 1-2}]"),
      "cluster.devices[1].ranks: rank 1 is one of cluster.devices[0], too");
  has(problems("[{ranks: 0-1}, {count: 3}]"), "2 + 3 = 5 device(s), but there are 4 rank(s)");
  has(problems("[{ranks: 0-1}, {ranks: 5-6}]"), "there is no rank 5, but 4 ranks");
  has(problems("[{ranks: 0-1, count: 2}, {count: 2}]"), "remove count");
  has(problems("[{ranks: 0-1, host: a}, {count: 2}]"), "remove host");
  has(problems("[{ranks: two}, {count: 2}]"),
      "expected ranks such as 0-7, or '0-7, 12', found two");
  EXPECT_EQ(problems("[{host: a}, {count: 2}]"), "") << "a run knows the hosts";
  const Deck by_host = with("[{host: a}, {host: b, count: 2}]");
  const auto error = [&](const std::vector<std::string>& hosts) {
    try {
      check_ranks(hosts.empty() ? by_host : with_hosts(by_host, hosts), 4);
    } catch (const Error& found) {
      EXPECT_EQ(found.code(), ExitCode::usage);
      return std::string(found.what());
    }
    return std::string();
  };
  EXPECT_EQ(error({"a", "a", "b", "b"}), "");
  has(error({}), "cluster.devices[0].host: the ranks on a are known in a run only");
  has(error({"b", "b", "b", "b"}), "cluster.devices[0].host: no rank is on a");
  has(error({"a", "b", "b", "b"}),
      "cluster.devices[1].host: 3 ranks on b, but the item's count is 2");
  has(error({"a", "b", "c", "b"}), "1 + 2 = 3 device(s), but there are 4 rank(s)");
}

}  // namespace
}  // namespace hidup
