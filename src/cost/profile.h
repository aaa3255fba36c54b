// Measured times of a machine, as data: what predictions and the search rest on.
//
// Operations have the times of the slowest rank, which the others wait for, alone, and in a
// recording where training replays one. Messages were timed beside the model's heaviest product,
// by every algorithm that can carry them. A collective of unequal parts takes as long as if all
// parts were like the largest (paced_bytes()). Where devices differ every rank has the costs of
// its class (RankCosts), and the search rests on the slowest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/collective_algorithm.h"
#include "program/program.h"
#include "program/work.h"

namespace hidup {

// What the times depend on. A profile counts for a run only if all of it is equal.
struct ProfileKey {
  std::string build;                   // version and commit of the program that measured
  std::string device;                  // what a rank computes on, and its number of threads
  std::vector<std::string> libraries;  // those whose speed counts, as loaded
  Mesh mesh;
  std::vector<int64_t> hosts;  // the host of every rank, numbered as they first appear
};

// An instruction that was timed, alone on its rank.
struct OperationTime {
  Opcode opcode = Opcode::add;
  Work work;
  double seconds = 0.0;  // median
};

// A collective that was timed, alone and beside computation.
struct MessageTime {
  double bytes = 0.0;     // as Instruction::bytes counts them
  double alone_s = 0.0;   // median, nothing computes meanwhile
  double beside_s = 0.0;  // median, the compute stream of every rank is busy meanwhile
  double slowdown = 1.0;  // of computation while it runs, at least 1
};

// One collective over the ranks of one axis; or slice: copies, as messages are packed by the
// stream of communication.
struct CollectiveTimes {
  Opcode opcode = Opcode::all_reduce;
  size_t axis = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  double latency_s = 0.0;          // latency_s + bytes / bandwidth fits the times alone
  double bandwidth = 0.0;          // bytes per second
  std::vector<MessageTime> table;  // by bytes, rising
};

// What a rank does at best while all ranks are busy: what floors rest on (floor.h).
struct DeviceRates {
  std::map<DType, double> products;  // flop/s of a large product, by the type of its elements
  double memory = 0.0;               // bytes/s, read and written, of what no cache holds
};

// Products of so many flops reach this share of their type's rate.
struct ShareOfRate {
  double flops = 0.0;
  double share = 1.0;
};

struct Profile {
  ProfileKey key;
  std::string model;      // whose operations were timed
  double launch_s = 0.0;  // between two instructions of a stream
  double signal_s = 0.0;  // from the end of an instruction to what waits for it in the other stream
  double overhead_s = 0.0;           // of a step outside the program: input, exchange of timings
  std::optional<DeviceRates> rates;  // older profiles have none
  std::vector<OperationTime> operations;
  // Where the operations' times are those of rated flops: what products reach of these, by type and
  // rising flops. Profiles that were measured have none, nor has their text.
  std::map<DType, std::vector<ShareOfRate>> efficiency;
  // A flat sum or gather crosses an outer axis on the links of all ranks inside of it, as NCCL's
  // rings do; else on that of one of them, as MPI's single ring does. Its text lacks it, too.
  bool rings_use_all_links = false;
  std::vector<CollectiveTimes> collectives;
  // By axis: how many times as long a message takes with all groups of the axis at once as with one
  // alone, where that is clearly more. The collectives' times are those of all at once.
  std::map<size_t, double> shared;
  // Of products that another algorithm did faster than the one that the library proposes first: its
  // number (kernels/products.h).
  std::map<std::vector<int64_t>, int> algorithms;
};

// Its times of the collective by that algorithm; null where it has none.
const CollectiveTimes* times_of(const Profile& profile, Opcode opcode, size_t axis,
                                CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic);

// The first thing that differs, with both values: "it was measured with device ..., and this run
// has ..."; empty where the profile fits.
std::string profile_mismatch(const ProfileKey& measured, const ProfileKey& wanted);

// As YAML.
std::string print_profile(const Profile& profile);
// The inverse. Throws one Error(usage) with a line "SOURCE:LINE:COLUMN: ..." per problem.
Profile parse_profile(const std::string& text, const std::string& source);

}  // namespace hidup
