// What a collective sends along each of its axes, and by which algorithm.
#pragma once

#include <vector>

#include "program/program.h"
#include "sharding/algorithms.h"

namespace hidup {

// What the time of a collective grows with: its bytes (as work_of() counts them), but of unequal
// parts as if all were as large as this rank's, because a ring waits for the largest.
double paced_bytes(const Program& program, const Instruction& instruction, int64_t rank);

// A collective along one axis; bytes as paced_bytes() counts them, of each of `times` in a row.
struct MessagePart {
  Opcode opcode = Opcode::all_reduce;
  size_t axis = 0;
  double bytes = 0.0;
  double times = 1.0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
};

// The collectives, one after the other, that one of so many paced_bytes() consists of: itself, or,
// of a joint one, those along its axes. Of n ranks inside, a sum goes on outside with one n-th of
// the bytes: reduce-scatter inside, all-reduce outside, all-gather inside. Where summands are
// rounded (Instruction::sent_as), ranks that scatter sums send them all to all, and add themselves;
// an all-reduce then gathers, along its own axis too. An all-to-all takes all
// bytes along both. A flat one sends each byte once, along the outermost axis on which its two
// ranks differ, in as many messages as there are ranks inside of that axis.
//
// The parts of a flat sum or gather run at once (run_at_once()): it is a ring of all N ranks, in
// which every rank sends (N - 1) / N of the bytes, to a neighbour along the innermost axis or, one
// of all ranks inside of an axis, along that axis. A part has the bytes of which a ring of its
// axis's ranks sends as much, where the crossing is divided among the links of all ranks inside.
std::vector<MessagePart> message_parts(const Mesh& mesh, const Instruction& instruction,
                                       double bytes);

// The parts of the collective run at once, so the longest counts; else one after the other.
bool run_at_once(const Instruction& instruction);

// Instruction::algorithms of a collective of so many paced_bytes().
std::vector<CollectiveAlgorithm> algorithms_by(const std::vector<AlgorithmChoice>& choices,
                                               const Mesh& mesh, const Instruction& instruction,
                                               double bytes);
// Fills those of all collectives, for the rank that has most.
void choose_algorithms(Program& program, const std::vector<AlgorithmChoice>& choices);

}  // namespace hidup
