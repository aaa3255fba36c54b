// The search for a strategy as plain data, and what it minimizes.
//
// Every operation is computed in one of several ways (its choices). A choice says in which layout
// it reads each activation, in which layout it leaves the gradients of these, and in which it
// writes its output. Layouts have numbers, the same for all tensors; what they are (of one axis of
// the mesh or of several) the search need not know.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace hidup {

// A tensor brought from one layout to another, for one microbatch.
struct Reshard {
  double comm_s = 0.0;     // in collectives
  double compute_s = 0.0;  // in slices and the like, on the compute stream
  double bytes = 0.0;      // of the copy if the backward pass needs it, over all microbatches
};

// The reshards of a tensor, [layout that its operation wrote, layout of the reader]: of the tensor,
// and of its gradient, which goes the other way.
struct TensorCosts {
  std::vector<Reshard> forward, backward;
};

// What an operation reads: the layout that it wants, and that of the gradient that it gives; -1
// where it gives none.
struct Reading {
  int wants = 0;
  int gives = -1;
};

// One way to compute an operation. Times are of a rank: compute and comm for one microbatch,
// gather, sync and step for a step.
struct Choice {
  std::vector<Reading> inputs;  // as SearchOp::inputs
  int output = 0;
  double forward_compute_s = 0.0, backward_compute_s = 0.0;
  double forward_comm_s = 0.0, backward_comm_s = 0.0;  // within the operation
  double gather_s = 0.0;                               // of its parameters, before its forward pass
  double sync_s = 0.0;            // of its parameters' gradients, behind its backward pass
  double step_s = 0.0;            // what nothing hides: the update of its parameters
  double persistent_bytes = 0.0;  // parameters, gradients, optimizer state
  double saved_bytes = 0.0;       // for the backward pass, of all microbatches
};

// Operations that are alike share their kind.
struct OpChoices {
  std::vector<Choice> choices;
  int tensor = 0;  // of the output: in Problem::tensors
};

struct SearchOp {
  int kind = 0;             // in Problem::kinds
  std::vector<int> inputs;  // the operations that wrote the activations it reads
};

// One search problem for each number of microbatches: the times depend on it.
struct Problem {
  int layouts = 1;  // at most kMostLayouts
  int microbatches = 1;
  // While both streams are busy: the part of the shorter one's time by which the two together take
  // longer than the longer one alone; from 0 (perfect overlap) to 1 (none).
  double interference = 0.0;
  double memory_limit = std::numeric_limits<double>::infinity();  // bytes
  double base_s = 0.0;                                            // of every plan
  double base_bytes = 0.0;
  std::vector<TensorCosts> tensors;
  std::vector<OpChoices> kinds;
  std::vector<SearchOp> ops;  // in an order that can be computed

  const OpChoices& choices_of(size_t op) const { return kinds[static_cast<size_t>(ops[op].kind)]; }
  const TensorCosts& tensor_of(size_t op) const {
    return tensors[static_cast<size_t>(choices_of(op).tensor)];
  }
  size_t entry(int written, int read) const {
    return static_cast<size_t>(written) * static_cast<size_t>(layouts) + static_cast<size_t>(read);
  }
};
inline constexpr int kMostLayouts = 256;

// Throws Error(internal) where indices, sizes or numbers of the problem make no sense.
void check_problem(const Problem& problem);

struct Plan {
  std::vector<int> choices;  // per operation
  std::vector<bool> starts;  // per operation: whether a stage starts with it; needed_starts()
};

struct Evaluation {
  double seconds = 0.0;
  double bytes = 0.0;
};

// The predicted time of a step. A stage is communication, then computation (HiDup, section 4): in
// each pass one starts with every operation that communicates in it, for the program cuts there
// (program/duplex.cpp).
//
// Reshards: a tensor is brought to a layout once for all that want it there, at the first of them;
// likewise its gradient's sums. A reader's reshards belong to its stage in both passes.
//
// Forward pass, with k microbatches, P and C the seconds of a stage's computation and communication
// for one of them, debt the P of the stage before (0 at first):
//   k >= 2:  sum over stages of  overlap(debt, C) + (k - 1) overlap(P, C),  and the last P
//   k == 1:  sum over stages of  P + C
// where overlap(x, y) = max(x, y) + interference * min(x, y). The first term is the first
// microbatch's communication beside the last one's computation of the stage before; in the others
// the microbatches take turns. For k = 2 without interference this is HiDup's formula. Backward
// pass: the same sum, of P' and C'; its stages run in the opposite order, and so do their two
// halves, so that again C' meets the P' of its own stage and of the one before (in graph order).
//
// Parameter gathers and gradient synchronization happen once a step, in the time in which the
// communication stream would be idle. It sends in order, so a message that is not through when the
// next communication of the pass is due delays that: it hides only behind operations before it (in
// graph order; the backward pass of these comes later) up to the communication that starts the open
// stage. The first microbatch waits for gathers while the others have not begun: one microbatch's
// computation hides them. Synchronization is sent after the last one's, and each bucket ends a
// stage: all microbatches' hides it, (k - 1) times as far as it exceeds the stage's C. What the
// start of a stage leaves of the computation before it, min(idle, debt) - C, remains. Hidden
// seconds cost `interference` each, others are added; likewise those of C that should hide behind
// the debt while a message still does. Within an operation a gather comes after the communication,
// and a synchronization, which the weights' gradients precede, before it (in graph order).
//
// Measured against the simulation of what lower() writes: tests/bench/README.md.
//
// Throws Error(internal) for a plan that does not fit or has other stages than it needs.
Evaluation evaluate(const Problem& problem, const Plan& plan);
// With the stages that the choices need.
Evaluation evaluate(const Problem& problem, const std::vector<int>& choices);

// The operations that communicate in either pass.
std::vector<bool> needed_starts(const Problem& problem, const std::vector<int>& choices);

}  // namespace hidup
