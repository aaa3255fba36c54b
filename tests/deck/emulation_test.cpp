// Keys of emulation: unequal devices, shared links, hosts' links, and links that vary in time.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "deck_text.h"

#include "deck/cluster_deck.h"

namespace hidup {
namespace {

const std::string kOn = "cluster.emulate=on";

std::string set(const std::vector<std::string>& overrides) {
  return problems_of(kModel, kCluster, overrides);
}

std::string axes(const std::string& node, const std::string& gpu) {
  return "cluster.mesh=[{name: node, size: 2" + node + "}, {name: gpu, size: " + gpu + "}]";
}

// Returns the problem of the deck on so many ranks.
std::string with_ranks(const std::vector<std::string>& overrides, int64_t ranks) {
  try {
    check_ranks(parse(kModel, kCluster, overrides), ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

TEST(Emulation, IsOffAndKeepsTime) {
  const Deck deck = parse(kModel);
  EXPECT_EQ(deck.cluster->emulate, "off");
  EXPECT_EQ(deck.cluster->emulate_dilation, 1.0);
  EXPECT_TRUE(deck.cluster->devices.empty());
  EXPECT_EQ(deck.cluster->mesh[0].shared, 1);
  EXPECT_TRUE(deck.cluster->mesh[0].bandwidth_trace.empty());
}

TEST(Emulation, ReadsDevicesAndLinks) {
  const std::string trace =
      ", bandwidth: 1GB/s, shared: 4, bandwidth_trace: "
      "[{for: 10ms, bandwidth: 1GB/s}, {bandwidth: 250MB/s, for: 2s}]";
  const Deck deck = parse(
      kModel, kCluster,
      {kOn, "cluster.emulate_dilation=2.5", axes(trace, "4"),
       "cluster.devices=[{flops: 1TFLOPS, count: 6}, {flops: 500GFLOPS, memory_bandwidth: 1GB/s}, "
       "{flops: 1GFLOPS, pace_trace: [{for: 1s, pace: 1}, {for: 5ms, pace: 0.25}]}]"});
  EXPECT_EQ(deck.cluster->emulate, "on");
  EXPECT_EQ(deck.cluster->emulate_dilation, 2.5);
  ASSERT_EQ(deck.cluster->devices.size(), 3U);
  EXPECT_EQ(deck.cluster->devices[0].count, 6);
  EXPECT_EQ(deck.cluster->devices[0].flops, 1e12);
  EXPECT_EQ(deck.cluster->devices[0].memory_bandwidth, std::nullopt);
  EXPECT_EQ(deck.cluster->devices[1].count, std::nullopt);
  EXPECT_EQ(deck.cluster->devices[1].flops, 5e11);
  EXPECT_EQ(deck.cluster->devices[1].memory_bandwidth, 1e9);
  EXPECT_TRUE(deck.cluster->devices[1].pace_trace.empty());
  ASSERT_EQ(deck.cluster->devices[2].pace_trace.size(), 2U);
  EXPECT_EQ(deck.cluster->devices[2].pace_trace[1].for_s, 0.005);
  EXPECT_EQ(deck.cluster->devices[2].pace_trace[1].rate, 0.25);
  const MeshAxis& node = deck.cluster->mesh[0];
  EXPECT_EQ(node.shared, 4);
  ASSERT_EQ(node.bandwidth_trace.size(), 2U);
  EXPECT_EQ(node.bandwidth_trace[0].for_s, 0.01);
  EXPECT_EQ(node.bandwidth_trace[0].rate, 1e9);
  EXPECT_EQ(node.bandwidth_trace[1].for_s, 2.0);
  EXPECT_EQ(node.bandwidth_trace[1].rate, 2.5e8);
  EXPECT_TRUE(deck.cluster->mesh[1].bandwidth_trace.empty());
  EXPECT_EQ(place_of(deck, "cluster.mesh[0].bandwidth_trace[1].for"), "--set " + axes(trace, "4"));
  const Deck one_axis = parse(
      kModel, kCluster, {kOn, "cluster.mesh.gpu.bandwidth_trace=[{for: 1s, bandwidth: 1Gbps}]"});
  EXPECT_EQ(one_axis.cluster->mesh[1].bandwidth_trace.size(), 1U);
  EXPECT_TRUE(one_axis.cluster->mesh[0].bandwidth_trace.empty());
}

TEST(Emulation, RefusesWhatDevicesCannotBe) {
  const std::string key = "cluster.devices=";
  const auto problem = [&](const std::string& value) {
    const std::string text = set({key + value});
    const std::string place = "--set " + key + value + ": ";
    EXPECT_TRUE(text.starts_with(place)) << text;
    return text.substr(std::min(place.size(), text.size()));
  };
  EXPECT_EQ(problem("4"), "cluster.devices: expected a list of devices, found 4");
  EXPECT_EQ(problem("[4]"),
            "cluster.devices[0]: expected the keys ranks, host, count, kind, threads, memory, "
            "flops, flops_16bit, memory_bandwidth, pace_trace, found 4");
  EXPECT_EQ(problem("[{flops: 1TFLOPS, count: 0}]"),
            "cluster.devices[0].count: expected an integer from 1 to 1000000, or auto, found 0");
  EXPECT_EQ(problem("[{flops: 1TFLOPS, cuont: 2}]"),
            "unknown key cluster.devices[0].cuont: did you mean cluster.devices[0].count?");
  EXPECT_EQ(set({"cluster.devices[0].count=1"}),
            "--set cluster.devices[0].count=1: cluster.devices is a list: set all of it, as a "
            "list of {ranks, host, count, kind, threads, memory, flops, flops_16bit, "
            "memory_bandwidth, pace_trace}");
}

TEST(Emulation, OnlyEmulatedDevicesVary) {
  const std::string devices =
      "cluster.devices=[{count: 2, flops: 1TFLOPS, pace_trace: [{for: 1s, pace: 2}]}]";
  EXPECT_EQ(
      set({devices, axes("", "1"), "cluster.emulate=off"}),
      "--set " + devices + ": cluster.devices[0].pace_trace has no use with cluster.emulate off");
  EXPECT_NE(set({"cluster.devices=[{flops: 1TFLOPS, pace_trace: [{for: 1s, pace: 0}]}]"}), "");
}

TEST(Emulation, DevicesAreAsManyAsTheRanks) {
  const std::string devices =
      "cluster.devices=[{count: 2, flops: 1TFLOPS}, {flops: 1GFLOPS}, {flops: 1MFLOPS}]";
  EXPECT_EQ(with_ranks({devices}, 4), "");
  EXPECT_EQ(
      with_ranks({devices}, 6),
      "--set " + devices + ": cluster.devices: 2 + 1 + 1 = 4 device(s), but there are 6 rank(s)");
  EXPECT_EQ(set({devices, axes("", "2")}), "");
  EXPECT_EQ(
      set({devices, axes("", "4")}),
      "--set " + devices + ": cluster.devices: 2 + 1 + 1 = 4 device(s), but there are 8 rank(s)")
      << "known without ranks";
}

TEST(Emulation, ALinkIsSharedByRanksOfOtherAxes) {
  EXPECT_EQ(set({axes(", shared: 4", "4")}), "");
  EXPECT_EQ(set({axes(", shared: 2", "4")}), "");
  EXPECT_EQ(set({axes(", shared: 3", "4")}),
            "--set " + axes(", shared: 3", "4") +
                ": cluster.mesh[0].shared 3, but the other axes have 4 rank(s): take a divisor "
                "of 4");
  EXPECT_EQ(set({"cluster.mesh.node.shared=0"}),
            "--set cluster.mesh.node.shared=0: cluster.mesh[0].shared: expected an integer from 1 "
            "to 1000000, found 0");
  EXPECT_EQ(with_ranks({"cluster.mesh.gpu.shared=3"}, 8),
            "--set cluster.mesh.gpu.shared=3: cluster.mesh[1].shared 3, but the other axes have 2 "
            "rank(s): take a divisor of 2");
  EXPECT_EQ(with_ranks({"cluster.mesh.node.shared=4"}, 8), "") << "an axis of size auto";
}

// Returns an axis over hosts with four ranks each.
std::string hosts(const std::string& more, const std::string& size = "8") {
  return "cluster.mesh=[{name: gpus, size: " + size + ", bandwidth: 130GB/s, " + more + "}]";
}

TEST(Hosts, OfAnAxisHaveRanksAndALink) {
  EXPECT_EQ(parse(kModel).cluster->mesh[0].per_host, 1);
  EXPECT_EQ(parse(kModel).cluster->mesh[0].host_bandwidth, std::nullopt);
  const Deck deck = parse(kModel, kCluster, {hosts("per_host: 4, host_bandwidth: 100Gbps")});
  EXPECT_EQ(deck.cluster->mesh[0].per_host, 4);
  EXPECT_EQ(deck.cluster->mesh[0].host_bandwidth, 1.25e10);
  EXPECT_EQ(set({hosts("per_host: 8, host_bandwidth: 100Gbps")}), "") << "all on one host";
  EXPECT_EQ(set({hosts("per_host: 1")}), "");
}

TEST(Hosts, ThatAnAxisCannotHave) {
  const auto problem = [](const std::string& more, const std::string& before = "") {
    const std::string key = hosts(more);
    const std::string text = before.empty() ? set({key}) : set({before, key});
    const std::string place = "--set " + key + ": ";
    EXPECT_TRUE(text.starts_with(place)) << text;
    return text.substr(std::min(place.size(), text.size()));
  };
  EXPECT_EQ(problem("per_host: 3, host_bandwidth: 100Gbps"),
            "cluster.mesh[0].per_host 3, but the axis gpus has 8 rank(s): take a divisor of 8");
  EXPECT_EQ(problem("per_host: 4"),
            "cluster.mesh[0].per_host needs cluster.mesh[0].host_bandwidth: expected the bandwidth "
            "of a host's link, such as 100Gbps");
  EXPECT_EQ(problem("host_bandwidth: 100Gbps"),
            "cluster.mesh[0].host_bandwidth has no use without cluster.mesh[0].per_host: expected "
            "the number of the axis's ranks on one host, more than 1");
  EXPECT_EQ(problem("per_host: 4, host_bandwidth: 100Gbps, bandwidth_trace: [{for: 1s, "
                    "bandwidth: 1Gbps}]",
                    kOn),
            "cluster.mesh[0].per_host and cluster.mesh[0].bandwidth_trace do not go together: "
            "expected one of them, since it would not be known which of the two links varies");
  EXPECT_EQ(problem("per_host: 0, host_bandwidth: 1Gbps"),
            "cluster.mesh[0].per_host: expected an integer from 1 to 1000000, found 0");
  EXPECT_EQ(problem("per_host: 4, host_bandwidth: fast"),
            "cluster.mesh[0].host_bandwidth: expected a bandwidth such as 9.71Gbps or 1.2GB/s, "
            "from 8kbps to 1000TB/s, or auto, found fast");
  const std::string node = axes(", shared: 4, per_host: 2, host_bandwidth: 1Gbps", "4");
  EXPECT_EQ(set({node}),
            "--set " + node +
                ": cluster.mesh[0].per_host and cluster.mesh[0].shared do not go together: "
                "expected one of them, since a link is either shared by ranks of this axis or by "
                "those of the inner ones");
  const std::string per_host = "cluster.mesh.gpu.per_host=3";
  EXPECT_EQ(with_ranks({per_host, "cluster.mesh.gpu.host_bandwidth=1Gbps"}, 8),
            "--set " + per_host +
                ": cluster.mesh[1].per_host 3, but the axis gpu has 4 rank(s): take a divisor of "
                "4")
      << "an axis of size auto";
}

// A mistake in a file is reported with its line.
TEST(Hosts, AMistakeIsToldWithItsPlace) {
  EXPECT_EQ(problems_of(kModel, kCluster + "      per_host: 4\n"),
            "c.yaml:8:17: cluster.mesh[1].per_host needs cluster.mesh[1].host_bandwidth: expected "
            "the bandwidth of a host's link, such as 100Gbps");
}

TEST(Emulation, TracesNeedEmulationAndABandwidth) {
  const std::string trace = "[{for: 10ms, bandwidth: 1Gbps}]";
  const std::string gpu = "cluster.mesh.gpu.bandwidth_trace=" + trace;
  const std::string node = "cluster.mesh.node.bandwidth_trace=" + trace;
  EXPECT_EQ(set({kOn, gpu}), "");
  EXPECT_EQ(set({gpu}), "--set " + gpu +
                            ": cluster.mesh[1].bandwidth_trace has no use with cluster.emulate "
                            "off");
  EXPECT_EQ(set({kOn, node}),
            "--set " + node +
                ": cluster.mesh[0].bandwidth_trace needs a number as cluster.mesh[0].bandwidth: "
                "predictions rest on that, and messages are faster or slower in proportion to it");
  const std::string key = "cluster.mesh.gpu.bandwidth_trace=";
  EXPECT_EQ(set({kOn, key + "[{for: 10ms}]"}),
            "--set " + key +
                "[{for: 10ms}]: cluster.mesh[1].bandwidth_trace[0].bandwidth is missing: expected "
                "a bandwidth such as 9.71Gbps or 1.2GB/s, from 8kbps to 1000TB/s");
  EXPECT_EQ(set({kOn, key + "[{for: 0s, bandwidth: 1Gbps}]"}),
            "--set " + key +
                "[{for: 0s, bandwidth: 1Gbps}]: cluster.mesh[1].bandwidth_trace[0].for: expected a "
                "time such as 30us, from 1us to 1h, found 0s");
  EXPECT_EQ(set({kOn, key + "1Gbps"}),
            "--set " + key +
                "1Gbps: cluster.mesh[1].bandwidth_trace: expected a list of times with "
                "bandwidths or paces, found 1Gbps");
}

TEST(Emulation, HasItsLimits) {
  EXPECT_EQ(set({kOn, "cluster.device.kind=cuda"}), "") << "what is emulated may be a GPU";
  EXPECT_EQ(set({"cluster.emulate=yes"}),
            "--set cluster.emulate=yes: cluster.emulate: expected one of on, off, found yes");
  EXPECT_EQ(set({kOn, "cluster.emulate_dilation=0"}),
            "--set cluster.emulate_dilation=0: cluster.emulate_dilation: expected a number from "
            "1e-06 to 1000000, found 0");
  const std::string devices = "cluster.devices=[{flops: 1TFLOPS}]";
  EXPECT_EQ(set({kOn, devices, "cluster.profile=measured.yaml"}),
            "--set " + devices +
                ": cluster.devices has no use beside the file of cluster.profile, whose times are "
                "those of all ranks: remove one of them");
}

}  // namespace
}  // namespace hidup
