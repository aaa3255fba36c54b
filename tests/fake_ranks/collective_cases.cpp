#include "collective_cases/collective_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>

#include "board_cases.h"
#include "case_data.h"
#include "in_place_cases.h"
#include "move_cases.h"
#include "sixteen_bit_cases.h"

namespace hidup {
namespace {

DeviceOptions g_options;

void all_reduce_sums_and_gives_all_the_same_bits(Communicator& world) {
  OwnStream stream;
  for (const int64_t count : {0, 1, 7, 1000, 300001}) {
    std::vector<float> data(static_cast<size_t>(count));
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = 1.0F / static_cast<float>(i + 1) + static_cast<float>(world.rank());
    }
    Array<float> on_device(stream, data);
    world.all_reduce(*stream, on_device.data(), count, DType::f32, CollectiveAlgorithm::automatic,
                     "data");
    data = on_device.values();
    const auto ranks = static_cast<float>(world.size());
    for (size_t i = 0; i < data.size(); ++i) {
      const float sum = ranks / static_cast<float>(i + 1) + ranks * (ranks - 1.0F) / 2.0F;
      ASSERT_NEAR(data[i], sum, 4e-6F * sum);
    }
    const uint64_t bits = bits_of(data);
    for (const uint64_t other : all_gather_value(world, bits)) {
      EXPECT_EQ(other, bits);
    }
  }
}

void all_gather_puts_parts_in_rank_order(Communicator& world) {
  OwnStream stream;
  for (const Counts& counts : count_patterns(world.size())) {
    const int64_t mine = counts[static_cast<size_t>(world.rank())];
    std::vector<int32_t> send;
    for (int64_t i = 0; i < mine; ++i) {
      send.push_back(element(world.rank(), 0, i));
    }
    Array<int32_t> sent(stream, send);
    Array<int32_t> receive(stream, guarded(sum_of(counts)));
    world.all_gather(*stream, sent.data(), receive.data(), counts, DType::f32,
                     CollectiveAlgorithm::automatic, "parts");
    std::vector<int32_t> wanted;
    for (int r = 0; r < world.size(); ++r) {
      for (int64_t i = 0; i < counts[static_cast<size_t>(r)]; ++i) {
        wanted.push_back(element(r, 0, i));
      }
    }
    wanted.push_back(kGuard);
    expect_equal(receive.values(), wanted);
  }
}

void reduce_scatter_sums_each_part(Communicator& world) {
  OwnStream stream;
  const int ranks = world.size();
  for (const Counts& counts : count_patterns(ranks)) {
    // Small integers have the same sum in any order.
    std::vector<float> send;
    for (int64_t i = 0; i < sum_of(counts); ++i) {
      send.push_back(static_cast<float>(i % 97 + 100 * world.rank()));
    }
    const int64_t mine = counts[static_cast<size_t>(world.rank())];
    Array<float> sent(stream, send);
    Array<float> receive(
        stream, std::vector<float>(static_cast<size_t>(mine) + 1, static_cast<float>(kGuard)));
    world.reduce_scatter(*stream, sent.data(), receive.data(), counts, DType::f32,
                         CollectiveAlgorithm::automatic, "sums");
    const int64_t start = sum_of(Counts(counts.begin(), counts.begin() + world.rank()));
    std::vector<float> wanted;
    for (int64_t i = start; i < start + mine; ++i) {
      wanted.push_back(static_cast<float>(i % 97 * ranks + 50 * ranks * (ranks - 1)));
    }
    wanted.push_back(static_cast<float>(kGuard));
    expect_equal(receive.values(), wanted);
  }
}

void reduce_scatter_repeats_to_the_bit(Communicator& world) {
  OwnStream stream;
  for (const Counts& counts : count_patterns(world.size())) {
    std::vector<float> send(static_cast<size_t>(sum_of(counts)));
    for (size_t i = 0; i < send.size(); ++i) {
      send[i] = 1.0F / static_cast<float>(3 + (i + 1) * static_cast<size_t>(world.rank() + 1));
    }
    Array<float> sent(stream, send);
    uint64_t first = 0;
    for (int repeat = 0; repeat < 5; ++repeat) {
      Array<float> receive(
          stream,
          std::vector<float>(static_cast<size_t>(counts[static_cast<size_t>(world.rank())])));
      world.reduce_scatter(*stream, sent.data(), receive.data(), counts, DType::f32,
                           CollectiveAlgorithm::automatic, "sums");
      const uint64_t bits = bits_of(receive.values());
      first = repeat == 0 ? bits : first;
      EXPECT_EQ(bits, first);
    }
  }
}

// Returns the number of elements from one rank to another; `scale` makes it large.
int64_t pair_count(int from, int to, int64_t scale) {
  return (from * 3 + to * 5 + from * to) % 4 * scale + (from + 2 * to) % 3;
}

void all_to_all_exchanges_pieces(Communicator& world) {
  OwnStream stream;
  for (const int64_t scale : {0, 1, 1000, 9001, 100003}) {
    Counts send_counts;
    Counts receive_counts;
    std::vector<int32_t> send;
    std::vector<int32_t> wanted;
    for (int peer = 0; peer < world.size(); ++peer) {
      send_counts.push_back(pair_count(world.rank(), peer, scale));
      receive_counts.push_back(pair_count(peer, world.rank(), scale));
      for (int64_t i = 0; i < send_counts.back(); ++i) {
        send.push_back(element(world.rank(), peer, i));
      }
      for (int64_t i = 0; i < receive_counts.back(); ++i) {
        wanted.push_back(element(peer, world.rank(), i));
      }
    }
    wanted.push_back(kGuard);
    Array<int32_t> sent(stream, send);
    Array<int32_t> receive(stream, guarded(sum_of(receive_counts)));
    world.all_to_all(*stream, sent.data(), send_counts, receive.data(), receive_counts, DType::f32,
                     CollectiveAlgorithm::automatic, "pieces");
    expect_equal(receive.values(), wanted);
  }
}

void all_to_all_may_be_empty(Communicator& world) {
  OwnStream stream;
  const Counts none(static_cast<size_t>(world.size()), 0);
  Array<int32_t> receive(stream, guarded(0));
  world.all_to_all(*stream, nullptr, none, receive.data(), none, DType::f32,
                   CollectiveAlgorithm::automatic, "nothing");
  EXPECT_EQ(receive.values(), guarded(0));
}

void device_broadcast_is_the_roots(Communicator& world) {
  OwnStream stream;
  for (const int root : {0, world.size() - 1}) {
    for (const int64_t count : {0, 1, 1000, 2131, 300001}) {
      std::vector<int32_t> data = guarded(count);
      std::vector<int32_t> wanted = guarded(count);
      for (int64_t i = 0; i < count; ++i) {
        data[static_cast<size_t>(i)] = element(world.rank(), 0, i);
        wanted[static_cast<size_t>(i)] = element(root, 0, i);
      }
      Array<int32_t> on_device(stream, data);
      world.broadcast(*stream, on_device.data(), count, root, DType::f32, "data");
      expect_equal(on_device.values(), wanted);
    }
  }
}

// The host does not wait between the rounds, so a rank that leaves a collective early would
// overwrite data that another still reads.
void buffers_are_free_after_each_collective(Communicator& world) {
  OwnStream stream;
  constexpr size_t kRounds = 50;
  const auto ranks = static_cast<size_t>(world.size());
  const Counts counts(ranks, 1000);
  const auto sum = static_cast<size_t>(sum_of(counts));
  const auto value = [](size_t rank, size_t round) {
    return static_cast<float>(1000 * rank + round);
  };
  Array<float> send(stream, std::vector<float>(sum));
  Array<float> gathered(stream, std::vector<float>(sum));
  Array<float> exchanged(stream, std::vector<float>(sum));
  Array<float> reduced(stream, std::vector<float>(1000));
  struct Round {
    std::vector<float> sent, gathered, exchanged, reduced;
  };
  std::vector<Round> rounds(kRounds);
  for (size_t r = 0; r < kRounds; ++r) {
    Round& round = rounds[r];
    round.sent.assign(sum, value(static_cast<size_t>(world.rank()), r));
    round.gathered.resize(sum);
    round.exchanged.resize(sum);
    round.reduced.resize(1000);
    stream->copy(send.data(), round.sent.data(), send.bytes());
    world.all_gather(*stream, send.data(), gathered.data(), counts, DType::f32,
                     CollectiveAlgorithm::automatic, "gathered");
    world.all_to_all(*stream, send.data(), counts, exchanged.data(), counts, DType::f32,
                     CollectiveAlgorithm::automatic, "exchanged");
    world.reduce_scatter(*stream, send.data(), reduced.data(), counts, DType::f32,
                         CollectiveAlgorithm::automatic, "reduced");
    stream->copy(round.gathered.data(), gathered.data(), gathered.bytes());
    stream->copy(round.exchanged.data(), exchanged.data(), exchanged.bytes());
    stream->copy(round.reduced.data(), reduced.data(), reduced.bytes());
  }
  stream->synchronize();
  for (size_t r = 0; r < kRounds; ++r) {
    std::vector<float> parts;
    float total = 0.0F;
    for (size_t rank = 0; rank < ranks; ++rank) {
      parts.insert(parts.end(), 1000, value(rank, r));
      total += value(rank, r);
    }
    expect_equal(rounds[r].gathered, parts);
    expect_equal(rounds[r].exchanged, parts);
    expect_equal(rounds[r].reduced, std::vector<float>(1000, total));
  }
}

// A recorded graph of collectives gives the same results as the calls.
void a_recording_repeats_them(Communicator& world) {
  if (world.through_host() || device_kind() == "cpu") {
    return;
  }
  OwnStream stream;
  const auto ranks = static_cast<size_t>(world.size());
  const auto rank = static_cast<size_t>(world.rank());
  Counts uneven(ranks);
  std::iota(uneven.begin(), uneven.end(), 1);
  const Counts even(ranks, 1);
  const auto all = static_cast<size_t>(sum_of(uneven));
  Array<float> sum(stream, std::vector<float>(5));
  Array<float> part(stream, std::vector<float>(rank + 1));
  Array<float> gathered(stream, std::vector<float>(all));
  Array<float> reduced(stream, std::vector<float>(rank + 1));
  Array<float> exchanged(stream, std::vector<float>(ranks));
  const auto issue = [&] {
    world.all_reduce(*stream, sum.data(), 5, DType::f32, CollectiveAlgorithm::automatic, "sum");
    world.all_gather(*stream, part.data(), gathered.data(), uneven, DType::f32,
                     CollectiveAlgorithm::automatic, "gathered");
    world.reduce_scatter(*stream, gathered.data(), reduced.data(), uneven, DType::f32,
                         CollectiveAlgorithm::automatic, "reduced");
    world.all_to_all(*stream, gathered.data(), even, exchanged.data(), even, DType::f32,
                     CollectiveAlgorithm::automatic, "exchanged");
  };
  const auto results_of = [&](size_t round, const auto& does) {
    sum.set(std::vector<float>(5, static_cast<float>(rank + 3 * round)));
    part.set(std::vector<float>(rank + 1, static_cast<float>(rank + 7 * round)));
    for (Array<float>* result : {&gathered, &reduced, &exchanged}) {
      result->set(std::vector<float>(result->values().size(), -1.0F));
    }
    does();
    std::vector<float> results;
    for (Array<float>* result : {&sum, &gathered, &reduced, &exchanged}) {
      const std::vector<float> values = result->values();
      results.insert(results.end(), values.begin(), values.end());
    }
    return results;
  };
  issue();  // creates objects of the first use
  const auto recording = stream.device().record(std::array{&*stream}, true, issue);
  ASSERT_NE(recording, nullptr);
  for (size_t round = 0; round < 5; ++round) {
    const std::vector<float> wanted = results_of(round, issue);
    expect_equal(results_of(round, [&] { recording->replay(); }), wanted);
  }
}

void device_and_host_collectives_do_not_mix(Communicator& world) {
  // One collective runs on the stream's thread while another runs here on the same group.
  OwnStream stream;
  const std::vector<float> ones(100000, 1.0F);
  Array<float> data(stream, ones);
  for (int round = 0; round < 20; ++round) {
    data.set(ones);
    world.all_reduce(*stream, data.data(), static_cast<int64_t>(ones.size()), DType::f32,
                     CollectiveAlgorithm::automatic, "data");
    const std::vector<int> ranks = all_gather_value(world, world.rank());
    EXPECT_EQ(ranks.back(), world.size() - 1);
    EXPECT_EQ(data.values().back(), static_cast<float>(world.size()));
  }
  // Rank 0 calls the same two collectives in the other order.
  for (int round = 0; round < 20; ++round) {
    Array<int32_t> number(stream, {world.rank() == 0 ? round : -1});
    std::string text = world.rank() == 0 ? "text" : "";
    if (world.rank() == 0) {
      text = world.broadcast(text);
      world.broadcast(*stream, number.data(), 1, 0, DType::f32, "number");
    } else {
      world.broadcast(*stream, number.data(), 1, 0, DType::f32, "number");
      text = world.broadcast(text);
    }
    EXPECT_EQ(number.values(), std::vector<int32_t>{round});
    EXPECT_EQ(text, "text");
  }
}

void host_broadcast_is_rank_zeros(Communicator& world) {
  for (const size_t length : {size_t{0}, size_t{5}, size_t{100000}}) {
    const std::string mine(length, static_cast<char>('a' + world.rank()));
    EXPECT_EQ(world.broadcast(mine), std::string(length, 'a'));
  }
}

void gather_takes_uneven_parts(Communicator& world) {
  const std::vector<std::byte> mine(static_cast<size_t>(world.rank()) * 3,
                                    static_cast<std::byte>(world.rank()));
  const auto parts = world.gather(mine);
  ASSERT_EQ(parts.size(), world.rank() == 0 ? static_cast<size_t>(world.size()) : 0U);
  for (size_t r = 0; r < parts.size(); ++r) {
    EXPECT_EQ(parts[r], std::vector<std::byte>(r * 3, static_cast<std::byte>(r)));
  }
}

void exchange_passes_uneven_pieces(Communicator& world) {
  std::vector<std::byte> send;
  std::vector<std::byte> expected;
  Counts send_counts;
  Counts receive_counts;
  const auto add = [](int from, int to, std::vector<std::byte>& bytes, Counts& counts) {
    counts.push_back(1000 * from * to);
    bytes.resize(bytes.size() + static_cast<size_t>(counts.back()),
                 static_cast<std::byte>(16 * from + to));
  };
  for (int other = 0; other < world.size(); ++other) {
    add(world.rank(), other, send, send_counts);
    add(other, world.rank(), expected, receive_counts);
  }
  std::vector<std::byte> received(expected.size());
  world.exchange(send, send_counts, received, receive_counts);
  EXPECT_EQ(received, expected);
}

// Checks that the group has exactly these ranks of the world, in this order, on both channels.
void expect_group(Communicator& group, int world_rank, const std::vector<int>& members) {
  ASSERT_EQ(static_cast<size_t>(group.size()), members.size());
  EXPECT_EQ(members[static_cast<size_t>(group.rank())], world_rank);
  EXPECT_EQ(all_gather_value(group, world_rank), members);
  OwnStream stream;
  Array<int32_t> mine(stream, {world_rank});
  Array<int32_t> seen(stream, std::vector<int32_t>(members.size()));
  group.all_gather(*stream, mine.data(), seen.data(), Counts(members.size(), 1), DType::f32,
                   CollectiveAlgorithm::automatic, "members");
  Array<float> sum(stream, {static_cast<float>(world_rank)});
  group.all_reduce(*stream, sum.data(), 1, DType::f32, CollectiveAlgorithm::automatic,
                   "sum of members");
  EXPECT_EQ(seen.values(), members);
  const auto total = static_cast<float>(std::accumulate(members.begin(), members.end(), 0));
  EXPECT_EQ(sum.values(), std::vector<float>{total});
}

void split_makes_groups_of_one_color(Communicator& world) {
  const int rank = world.rank();
  const int ranks = world.size();
  const auto halves = world.split(rank < ranks / 2 ? 5 : -5);
  const auto parities = world.split(rank % 2);
  const auto alone = world.split(-(int64_t{1} << 40) * rank);
  const auto everyone = world.split(int64_t{1} << 60);
  std::vector<int> half;
  std::vector<int> parity;
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) {
    all.push_back(r);
    if ((r < ranks / 2) == (rank < ranks / 2)) {
      half.push_back(r);
    }
    if (r % 2 == rank % 2) {
      parity.push_back(r);
    }
  }
  for (int round = 0; round < 3; ++round) {
    expect_group(*halves, rank, half);
    expect_group(*parities, rank, parity);
    expect_group(*alone, rank, {rank});
    expect_group(*everyone, rank, all);
    expect_group(world, rank, all);
  }
}

void groups_of_a_split_have_all_collectives(Communicator& world) {
  const auto half = world.split(world.rank() < world.size() / 2 ? 0 : 1);
  const auto alone = half->split(half->rank());
  ASSERT_EQ(alone->size(), 1);
  for (Communicator* group : {half.get(), alone.get()}) {
    all_gather_puts_parts_in_rank_order(*group);
    reduce_scatter_sums_each_part(*group);
    all_to_all_exchanges_pieces(*group);
    device_broadcast_is_the_roots(*group);
    device_move_is_the_sources(*group);
  }
}

}  // namespace

const DeviceOptions& case_device() {
  return g_options;
}

void set_case_device(const DeviceOptions& options) {
  g_options = options;
}

const std::vector<CollectiveCase>& collective_cases() {
  static const std::vector<CollectiveCase> cases = {
      {"AllReduceSumsAndGivesAllTheSameBits", all_reduce_sums_and_gives_all_the_same_bits},
      {"AllGatherPutsPartsInRankOrder", all_gather_puts_parts_in_rank_order},
      {"ReduceScatterSumsEachPart", reduce_scatter_sums_each_part},
      {"ReduceScatterRepeatsToTheBit", reduce_scatter_repeats_to_the_bit},
      {"SixteenBitsAreSummed", sixteen_bits_are_summed},
      {"TwoBytesAreMoved", two_bytes_are_moved},
      {"AllToAllExchangesPieces", all_to_all_exchanges_pieces},
      {"AllToAllMayBeEmpty", all_to_all_may_be_empty},
      {"DeviceBroadcastIsTheRoots", device_broadcast_is_the_roots},
      {"DeviceMoveIsTheSources", device_move_is_the_sources},
      {"DeviceGatherAndScatterInPlace", device_gather_and_scatter_in_place},
      {"BuffersAreFreeAfterEachCollective", buffers_are_free_after_each_collective},
      {"ARecordingRepeatsThem", a_recording_repeats_them},
      {"DeviceAndHostCollectivesDoNotMix", device_and_host_collectives_do_not_mix},
      {"HostBroadcastIsRankZeros", host_broadcast_is_rank_zeros},
      {"GatherTakesUnevenParts", gather_takes_uneven_parts},
      {"ExchangePassesUnevenPieces", exchange_passes_uneven_pieces},
      {"SplitMakesGroupsOfOneColor", split_makes_groups_of_one_color},
      {"GroupsOfASplitHaveAllCollectives", groups_of_a_split_have_all_collectives},
      {"ABoardGivesEachRowItsLargest", a_board_gives_each_row_its_largest},
  };
  return cases;
}

}  // namespace hidup
