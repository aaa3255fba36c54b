// Measured times of a machine as data, the basis of predictions and of the search.
//
// Operations have the times of the slowest rank, which the others wait for, alone, and in a
// recording where training replays one. Where devices differ, they also have those of the slowest
// rank of each class. Messages were timed beside the model's heaviest product,
// by every algorithm that can carry them. A collective of unequal parts takes as long as if all
// parts were like the largest (paced_bytes()).
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

// The things that times depend on. A run uses a profile only if all of them are equal.
struct ProfileKey {
  std::string build;                   // version and commit of the program that measured
  std::string device;                  // the device of a rank, and its number of threads
  std::vector<std::string> libraries;  // libraries that affect speed, as loaded
  Mesh mesh;
  std::vector<int64_t> hosts;  // the host of every rank, numbered in order of appearance
  // The class of devices of every rank, numbered likewise; empty: all ranks are alike.
  std::vector<int64_t> classes = {};
};

// The measured time of an instruction alone on its rank.
struct OperationTime {
  Opcode opcode = Opcode::add;
  Work work;
  double seconds = 0.0;  // median
  // Seconds by class of devices; 0: no rank of the class ran the operation. Empty without classes.
  std::vector<double> by_class = {};
};

// The measured time of a collective, alone and beside computation.
struct MessageTime {
  double bytes = 0.0;     // as Instruction::bytes counts them
  double alone_s = 0.0;   // median, while nothing computes
  double beside_s = 0.0;  // median, while the compute stream of every rank is busy
  double slowdown = 1.0;  // factor on computation while the collective runs, at least 1
};

// The times of one collective over the ranks of one axis; for slice, of the copies that pack
// messages on the communication stream.
struct CollectiveTimes {
  Opcode opcode = Opcode::all_reduce;
  size_t axis = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  double latency_s = 0.0;          // latency_s + bytes / bandwidth fits the alone_s of the table
  double bandwidth = 0.0;          // bytes/s
  std::vector<MessageTime> table;  // by rising bytes
};

// The best rates of a rank while all ranks are busy. Floors (floor.h) rest on them.
struct DeviceRates {
  std::map<DType, double> products;  // flop/s of a large product, by element type
  double memory = 0.0;               // bytes/s of data that no cache holds, read and written
};

// The share of their type's rate that products of `flops` flops reach.
struct ShareOfRate {
  double flops = 0.0;
  double share = 1.0;
};

struct Profile {
  ProfileKey key;
  std::string model;        // the model whose operations were timed
  double launch_s = 0.0;    // between two instructions of a stream
  double signal_s = 0.0;    // from the end of an instruction to a waiting one on another stream
  double overhead_s = 0.0;  // of a step outside the program: input, exchange of timings
  std::optional<DeviceRates> rates;              // of the slowest rank; older profiles have none
  std::vector<DeviceRates> rates_by_class = {};  // empty without classes
  std::vector<OperationTime> operations;
  // The share of rated flops that products reach, by type and rising flops, where the operations'
  // times are those of rated flops. Measured profiles and the YAML text have none.
  std::map<DType, std::vector<ShareOfRate>> efficiency;
  // True where a flat sum or gather crosses an outer axis over the links of all ranks inside it, as
  // in NCCL's rings; false: over the link of one rank, as in MPI's ring. The YAML text lacks it.
  bool rings_use_all_links = false;
  std::vector<CollectiveTimes> collectives;
  // By axis, the factor on message times if all groups of the axis send at once, where it is
  // clearly above 1. The collectives' times include it.
  std::map<size_t, double> shared;
  // The algorithm number (kernels/products.h) of the products for which another algorithm was
  // faster than the library's first proposal.
  std::map<std::vector<int64_t>, int> algorithms;
};

// Returns the profile's times of the collective by the algorithm; null without such times.
const CollectiveTimes* times_of(const Profile& profile, Opcode opcode, size_t axis,
                                CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic);

// Returns the profile with the times and rates of one class of devices for all ranks.
Profile of_class(Profile profile, size_t number);

// Returns the profile of equal ranks that together do as much in a second as the profile's: the
// paces of every operation are averaged over the ranks. Without classes returns the same profile.
Profile balanced(Profile profile);

// Returns the pace of every rank in all operations together, relative to the slowest class; empty
// without classes.
std::vector<double> measured_paces(const Profile& profile);

// Returns the first difference with both values: "it was measured with device ..., and this run has
// ..."; empty where the profile fits.
std::string profile_mismatch(const ProfileKey& measured, const ProfileKey& wanted);

std::string print_profile(const Profile& profile);
// Parses print_profile()'s YAML. Throws one Error(usage) with "SOURCE:LINE:COLUMN: ..." per
// problem.
Profile parse_profile(const std::string& text, const std::string& source);

}  // namespace hidup
