// The time of an operation and of a collective, from a profile.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "cost/profile.h"
#include "program/message_parts.h"
#include "program/program.h"

namespace hidup {

class CostModel {
 public:
  // Throws Error(internal) for a profile without operations.
  explicit CostModel(const Profile& profile);

  // Seconds of an instruction that computes or copies on its rank, alone: its flops (of a product)
  // or bytes at the pace of the timed operations whose sizes are nearest. Where the profile's
  // products are at rated flops, at the share of these that one of so many flops reaches.
  double operation(Opcode opcode, const Work& work) const;

  // A collective of that many paced_bytes() over the ranks of an axis;
  // slice: a copy of them on the communication stream. Between the timed sizes straight on
  // logarithmic scales. By an algorithm that was not timed it takes as long as by automatic;
  // nothing for one that was not timed at all, but a move then takes as long as a broadcast.
  MessageTime collective(Opcode opcode, size_t axis, double bytes,
                         CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic) const;

  // For collectives of any size the algorithm that takes least by the profile, which counts a
  // message as much alone as beside computation; automatic where no other is clearly faster.
  const std::vector<AlgorithmChoice>& algorithms() const { return algorithms_; }

  // Returns the collectives, one after the other, that take as long as the instruction of so many
  // paced_bytes(): message_parts(). Of parts that run at once only the longest keeps its bytes; of
  // the others the latencies count.
  std::vector<MessagePart> timed_parts(const Mesh& mesh, const Instruction& instruction,
                                       double bytes) const;
  // The sum of these parts.
  MessageTime message(const Mesh& mesh, const Instruction& instruction, double bytes) const;

  double launch_s() const { return launch_s_; }
  double signal_s() const { return signal_s_; }
  double overhead_s() const { return overhead_s_; }

 private:
  // log2 of the sizes, and of the seconds per unit of work.
  struct Sample {
    std::vector<double> sizes;
    double pace;
  };

  // Of the operation, or of the product that it is without its bias; where neither was timed with
  // elements of this type, with others; where it was not timed, of another of its kind (product or
  // not), with elements of this type if any was timed with them.
  const std::vector<Sample>& samples_of(Opcode opcode, DType dtype) const;

  using Tables = std::map<CollectiveAlgorithm, std::vector<MessageTime>>;

  // Null where neither it nor one like it was timed.
  const Tables* tables_of(Opcode opcode, size_t axis) const;

  double launch_s_, signal_s_, overhead_s_;
  bool rings_use_all_links_;
  std::map<std::pair<Opcode, DType>, std::vector<Sample>> operations_;
  std::map<DType, std::vector<ShareOfRate>> efficiency_;
  std::map<std::pair<Opcode, size_t>, Tables> collectives_;
  std::vector<AlgorithmChoice> algorithms_;
};

}  // namespace hidup
