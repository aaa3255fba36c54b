// The time of an operation and of a collective, from a profile.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "cost/profile.h"
#include "program/program.h"

namespace hidup {

// What the time of a collective grows with: its bytes (as work_of() counts them), but of unequal
// parts as if all were as large as this rank's, because a ring waits for the largest.
double paced_bytes(const Program& program, const Instruction& instruction, int64_t rank);

class CostModel {
 public:
  // Throws Error(internal) for a profile without operations.
  explicit CostModel(const Profile& profile);

  // Seconds of an instruction that computes or copies on its rank, alone: its flops (of a product)
  // or bytes at the pace of the timed operations whose sizes are nearest.
  double operation(Opcode opcode, const Work& work) const;

  // A collective of that many paced_bytes() over the ranks of an axis;
  // slice: a copy of them on the communication stream. Between the timed sizes straight on
  // logarithmic scales; nothing for one that was not timed, but a
  // move then takes as long as a broadcast.
  MessageTime collective(Opcode opcode, size_t axis, double bytes) const;

  // The sum of the collectives of which the instruction consists (message_parts()), of so many
  // paced_bytes().
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
  // not).
  const std::vector<Sample>& samples_of(Opcode opcode, DType dtype) const;

  double launch_s_, signal_s_, overhead_s_;
  std::map<std::pair<Opcode, DType>, std::vector<Sample>> operations_;
  std::map<std::pair<Opcode, size_t>, std::vector<MessageTime>> collectives_;
};

}  // namespace hidup
