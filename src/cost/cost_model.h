// The times of operations and collectives, from a profile.
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

  // Returns the costs of a device on which these computations take `factor` times as long. Messages
  // stay.
  CostModel slower(double factor) const;

  // Returns the seconds of an instruction that computes or copies on its rank, alone. Its work
  // (flops for products, bytes for others) runs at the pace of the timed operations of the nearest
  // sizes. Where the profile times products at rated flops, a product reaches the share of the rate
  // that the profile gives for its number of flops.
  double operation(Opcode opcode, const Work& work) const;

  // Returns the time of a collective of `bytes` paced_bytes() over the ranks of an axis; for slice,
  // of a copy of them on the communication stream. Interpolates linearly on logarithmic scales
  // between timed sizes. An algorithm that was not timed takes as long as automatic. A collective
  // that was not timed takes no time, except that a move then takes as long as a broadcast.
  MessageTime collective(Opcode opcode, size_t axis, double bytes,
                         CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic) const;

  // The fastest algorithm by the profile, for collectives of any size. Times alone and beside
  // computation count equally. Automatic where no other algorithm is clearly faster.
  const std::vector<AlgorithmChoice>& algorithms() const { return algorithms_; }

  // Returns the collectives, one after the other, that take as long as the instruction of `bytes`
  // paced_bytes(): message_parts(). If these run at once, only the longest keeps its bytes; the
  // others count by their latencies.
  std::vector<MessagePart> timed_parts(const Mesh& mesh, const Instruction& instruction,
                                       double bytes) const;
  // Returns the sum over these parts.
  MessageTime message(const Mesh& mesh, const Instruction& instruction, double bytes) const;

  // Returns Profile::rings_use_all_links: true where NCCL carries the messages.
  bool rings_use_all_links() const { return rings_use_all_links_; }

  double launch_s() const { return launch_s_; }
  double signal_s() const { return signal_s_; }
  double overhead_s() const { return overhead_s_; }

 private:
  // The log2 of the sizes, and the log2 of the seconds per unit of work.
  struct Sample {
    std::vector<double> sizes;
    double pace;
  };

  // Returns the samples of the operation, or of the product that it fuses with a bias. Without
  // samples of this element type it takes samples of another type. Without any it takes samples of
  // another operation of the same kind (product or not), preferably of this type.
  const std::vector<Sample>& samples_of(Opcode opcode, DType dtype) const;

  using Tables = std::map<CollectiveAlgorithm, std::vector<MessageTime>>;

  // Returns null where neither the collective nor a substitute was timed.
  const Tables* tables_of(Opcode opcode, size_t axis) const;

  double launch_s_, signal_s_, overhead_s_;
  bool rings_use_all_links_;
  double slower_ = 1.0;  // factor on the times of operations
  std::map<std::pair<Opcode, DType>, std::vector<Sample>> operations_;
  std::map<DType, std::vector<ShareOfRate>> efficiency_;
  std::map<std::pair<Opcode, size_t>, Tables> collectives_;
  std::vector<AlgorithmChoice> algorithms_;
};

}  // namespace hidup
