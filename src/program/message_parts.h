// The bytes that a collective sends along each of its axes, and the algorithm of each part.
#pragma once

#include <vector>

#include "program/program.h"
#include "sharding/algorithms.h"

namespace hidup {

// Returns the bytes that the collective's time grows with: as work_of() counts them, but unequal
// parts all count as much as this rank's, because a ring waits for the largest.
double paced_bytes(const Program& program, const Instruction& instruction, int64_t rank);

// Returns the bytes of all parts together, counted the same way.
double bytes_of_all_parts(const Program& program, const Instruction& instruction, int64_t rank);

// A collective along one axis. It runs `times` times in a row, each with `bytes` as paced_bytes()
// counts them.
struct MessagePart {
  Opcode opcode = Opcode::all_reduce;
  size_t axis = 0;
  double bytes = 0.0;
  double times = 1.0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
};

// Returns the consecutive collectives that a collective of `bytes` (paced_bytes()) consists of:
// itself, or the collectives along the axes of a joint one.
// - A sum with n inner ranks is a reduce-scatter along the inner axes, an all-reduce of one n-th of
//   the bytes along the outer axis, and an all-gather along the inner axes.
// - Where summands are rounded (Instruction::sent_as), ranks reduce-scatter by an all-to-all and
//   add themselves; an all-reduce then gathers, along its own axis too.
// - An all-to-all sends all bytes along both axes.
// - A flat all-to-all sends each byte once, along the outermost axis on which its two ranks differ,
//   in as many messages as there are ranks inside that axis.
// - A flat sum or gather is one ring of all N ranks, and its parts run at once (run_at_once()).
//   Every rank sends (N - 1) / N of the bytes to a neighbour along the innermost axis; one rank of
//   all those inside an outer axis sends along that axis instead. A part has the bytes with which a
//   ring of its axis's ranks sends as much, the crossing being divided among the links of all ranks
//   inside.
std::vector<MessagePart> message_parts(const Mesh& mesh, const Instruction& instruction,
                                       double bytes);

// Returns true where the parts of the collective run at once, so that only the longest counts.
bool run_at_once(const Instruction& instruction);

// Returns Instruction::algorithms for a collective of `bytes` (paced_bytes()).
std::vector<CollectiveAlgorithm> algorithms_by(const std::vector<AlgorithmChoice>& choices,
                                               const Mesh& mesh, const Instruction& instruction,
                                               double bytes);
// Sets Instruction::algorithms of all collectives, by the bytes of the rank that sends most.
void choose_algorithms(Program& program, const std::vector<AlgorithmChoice>& choices);

}  // namespace hidup
