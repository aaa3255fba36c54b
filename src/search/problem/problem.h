// The search for a strategy as plain data, and its objective.
//
// Every operation has several choices. A choice gives the layout in which it requires each
// activation that it reads, the layout in which it leaves that activation's gradient, and the
// layout of its output. Every tensor numbers the layouts in which it may be written, those in which
// it may be required, and those of its gradient. The placements behind the numbers, on one or
// several axes, do not matter here.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace hidup {

// The cost of bringing a tensor from one layout to another, for one microbatch.
struct Reshard {
  double comm_s = 0.0;     // in collectives
  double compute_s = 0.0;  // on the compute stream, as in slices
  double bytes = 0.0;      // of the copy over all microbatches, if the backward pass needs it
};

// The reshards from every layout in which a tensor is written to every layout of its readers; or,
// for a gradient, the other way.
struct Reshards {
  std::vector<Reshard> all = {{}};  // [written, read]
  int read = 1;                     // layouts of readers, at most kMostLayouts

  size_t written() const { return all.size() / static_cast<size_t>(read); }
  const Reshard& between(int written_in, int read_in) const {
    return all[static_cast<size_t>(written_in) * static_cast<size_t>(read) +
               static_cast<size_t>(read_in)];
  }
  // Returns upper bounds of the costs of reshards from any layout to this one; 0 for layout -1.
  Reshard costliest_to(int read_in) const;
};
// One axis has about six layouts: replicated, partial, and sharded in up to four dimensions. On
// several axes every combination that occurs counts. Every state contains a set of layouts
// (LayoutSet); 256 bits are four words.
inline constexpr int kMostLayouts = 256;

// The reshards of a tensor to its readers' layouts, and of its gradient from their layouts.
struct TensorCosts {
  Reshards forward, backward;
};

// The layout in which an operation requires an input, and that in which it leaves the input's
// gradient; -1: none.
struct InputLayouts {
  int required = 0;
  int gradient = -1;
};

// One way to compute an operation. Times are of one rank: compute and comm per microbatch (on
// average), gather, sync and step per step.
struct Choice {
  std::vector<InputLayouts> inputs;  // as SearchOp::inputs
  int output = 0;
  double forward_compute_s = 0.0, backward_compute_s = 0.0;
  double forward_comm_s = 0.0, backward_comm_s = 0.0;  // within the operation
  double gather_s = 0.0;                               // parameters, before its forward pass
  double sync_s = 0.0;            // gradients of parameters, after its backward pass
  double step_s = 0.0;            // never hidden: update of parameters, their part of the norm
  double persistent_bytes = 0.0;  // parameters, gradients, optimizer state
  double saved_bytes = 0.0;       // activations for the backward pass, over all microbatches
};

// The choices of equal operations.
struct OpChoices {
  std::vector<Choice> choices;
  int tensor = 0;  // the output, in Problem::tensors
};

struct SearchOp {
  int kind = 0;             // in Problem::kinds
  std::vector<int> inputs;  // the producers of the activations it reads
};

// A search problem for one number of microbatches, on which its times depend.
struct Problem {
  int microbatches = 1;
  // The part of the shorter stream's time that both streams take beyond the longer one's while both
  // are busy: from 0 (perfect overlap) to 1 (no overlap).
  double interference = 0.0;
  double memory_limit = std::numeric_limits<double>::infinity();  // bytes
  double base_s = 0.0;                                            // of every plan
  double base_bytes = 0.0;
  std::vector<TensorCosts> tensors;
  std::vector<OpChoices> kinds;
  std::vector<SearchOp> ops;  // in an order of computation

  const OpChoices& choices_of(size_t op) const { return kinds[static_cast<size_t>(ops[op].kind)]; }
  const TensorCosts& tensor_of(size_t op) const {
    return tensors[static_cast<size_t>(choices_of(op).tensor)];
  }
};

// Returns, per operation, the first one of its kind that reads the same tensors: all choices of the
// two, and the reshards of their inputs, cost the same.
std::vector<size_t> first_alike(const Problem& problem);

// Throws Error(internal) for an index out of range, sizes that disagree, or negative or infinite
// costs.
void check_problem(const Problem& problem);

struct Plan {
  std::vector<int> choices;  // per operation
  std::vector<bool> starts;  // per operation: it starts a stage; needed_starts()
};

struct Evaluation {
  double seconds = 0.0;
  double bytes = 0.0;
};

// Returns the predicted time of a step. A stage is communication, then computation (HiDup, section
// 4). Every operation that communicates in a pass starts a stage of that pass, as in the program
// (program/duplex.cpp).
//
// Reshards: a tensor is brought to a layout once for all readers that require it, at the first of
// them; likewise the sums of its gradient. A reader's reshards belong to its stage in both passes.
//
// Forward pass: let k be the number of microbatches, P and C the seconds of a stage's computation
// and communication for one microbatch, and debt the P of the stage before (0 at first):
//   k >= 2:  sum over stages of  overlap(debt, C) + (k - 1) overlap(P, C),  and the last P
//   k == 1:  sum over stages of  P + C
// where overlap(x, y) = max(x, y) + interference * min(x, y). In the first term, the communication
// of the first microbatch runs beside the last microbatch's computation in the stage before. In the
// second term, the microbatches take turns. For k = 2 without interference this is HiDup's formula.
// Backward pass: the same sum of P' and C'. Its stages and their two halves run in the opposite
// order, so C' again overlaps the P' of its own stage and of the one before (in graph order).
//
// Parameter gathers and gradient synchronization happen once a step, while the communication stream
// would be idle. The stream sends in order, so an unfinished message delays the next communication
// of the pass. A message hides only behind operations before it (in graph order; their backward
// pass comes later), up to the communication that starts the open stage.
// - Gathers: the first microbatch waits for them, and the others have not begun. They hide behind
//   the computation of one microbatch.
// - Synchronization follows the backward pass of the last microbatch, and each bucket ends a
//   stage. It hides behind the computation of all microbatches: for the k - 1 further ones, behind
//   the part that exceeds the stage's C. Messages hide there first; C cannot.
// - When a stage starts, min(idle, debt) - C of the idle time beside one microbatch remains.
// - A hidden second costs `interference`, any other second costs a second. So do
//   seconds of C that should hide behind the debt while a message still hides there.
// - Within an operation a gather comes after the communication. A synchronization comes before it
//   (in graph order), after the gradients of the weights.
//
// tests/bench/README.md compares it with the simulation of lower()'s programs. The time is
// monotone: it does not grow if any cost of the plan shrinks.
//
// Throws Error(internal) for a plan of another problem, or with other stages than its choices need.
Evaluation evaluate(const Problem& problem, const Plan& plan);
// Evaluates the choices with the stages that they need.
Evaluation evaluate(const Problem& problem, const std::vector<int>& choices);

// Returns true for operations that communicate in either pass.
std::vector<bool> needed_starts(const Problem& problem, const std::vector<int>& choices);

}  // namespace hidup
