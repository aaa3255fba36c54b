// The search for a strategy as plain data, and its objective.
//
// Every operation has several choices. A choice says in which layout it requires each activation
// that it reads, in which layout it leaves the gradients of these, and in which it writes its
// output. Every tensor has numbers of its own for the layouts in which it may be written, for those
// in which it may be required, and for those of its gradient. What a number stands for (placements
// on one axis of the mesh or on several) does not matter here.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace hidup {

// A tensor brought from one layout to another, for one microbatch.
struct Reshard {
  double comm_s = 0.0;     // in collectives
  double compute_s = 0.0;  // in slices and the like, on the compute stream
  double bytes = 0.0;      // of the copy, over all microbatches, if the backward pass needs it
};

// From every layout in which a tensor is written to every layout of its readers; or of a gradient,
// which goes the other way.
struct Reshards {
  std::vector<Reshard> all = {{}};  // [written, read]
  int read = 1;                     // layouts of readers, at most kMostLayouts

  size_t written() const { return all.size() / static_cast<size_t>(read); }
  const Reshard& between(int written_in, int read_in) const {
    return all[static_cast<size_t>(written_in) * static_cast<size_t>(read) +
               static_cast<size_t>(read_in)];
  }
  // An upper bound of each cost of a reshard to this layout, from any layout; of -1 there is none.
  Reshard costliest_to(int read_in) const;
};
// One axis has six layouts or so: replicated, partial, sharded in up to four dimensions. On several
// axes every combination that occurs counts. A set of them (LayoutSet) is a part of every state,
// and 256 are four words.
inline constexpr int kMostLayouts = 256;

// The reshards of a tensor, to the layouts in which readers require it; and of its gradient, from
// those in which they leave it.
struct TensorCosts {
  Reshards forward, backward;
};

// The layout in which an operation requires an input, and the layout in which it leaves the input's
// gradient; -1 where there is none.
struct InputLayouts {
  int required = 0;
  int gradient = -1;
};

// One way to compute an operation. Times are of one rank: compute and comm of one microbatch (on
// average), gather, sync and step of a step.
struct Choice {
  std::vector<InputLayouts> inputs;  // as SearchOp::inputs
  int output = 0;
  double forward_compute_s = 0.0, backward_compute_s = 0.0;
  double forward_comm_s = 0.0, backward_comm_s = 0.0;  // within the operation
  double gather_s = 0.0;                               // of its parameters, before its forward pass
  double sync_s = 0.0;  // of its parameters' gradients, behind its backward pass
  double step_s = 0.0;  // never hidden: the update of its parameters, their part of the norm
  double persistent_bytes = 0.0;  // parameters, gradients, optimizer state
  double saved_bytes = 0.0;       // for the backward pass, of all microbatches
};

// Equal operations share one kind.
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
  int microbatches = 1;
  // While both streams are busy, they together take longer than the longer one alone: by this part
  // of the shorter one's time, from 0 (perfect overlap) to 1 (none).
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
};

// Per operation the first one of its kind that reads the same tensors: all choices of the two, and
// the reshards of their inputs, cost the same.
std::vector<size_t> first_alike(const Problem& problem);

// Throws Error(internal) if an index is out of range, sizes disagree, or a cost is negative or not
// finite.
void check_problem(const Problem& problem);

struct Plan {
  std::vector<int> choices;  // per operation
  std::vector<bool> starts;  // per operation: whether it starts a stage; needed_starts()
};

struct Evaluation {
  double seconds = 0.0;
  double bytes = 0.0;
};

// The predicted time of a step. A stage is communication, then computation (HiDup, section 4).
// Every operation that communicates in a pass starts a stage of that pass, as in the program
// (program/duplex.cpp).
//
// Reshards: a tensor is brought to a layout once for all readers that require it, at the first of
// them; likewise the sums of its gradient. A reader's reshards belong to its stage in both passes.
//
// Forward pass: let k be the number of microbatches, P and C the seconds of a stage's computation
// and communication for one microbatch, debt the P of the stage before (0 at first):
//   k >= 2:  sum over stages of  overlap(debt, C) + (k - 1) overlap(P, C),  and the last P
//   k == 1:  sum over stages of  P + C
// where overlap(x, y) = max(x, y) + interference * min(x, y). In the first term the communication
// of the first microbatch runs beside the computation of the last microbatch in the stage before.
// In the second term the microbatches take turns. For k = 2 without interference this is HiDup's
// formula. Backward pass: the same sum, of P' and C'. Its stages run in the opposite order, and so
// do their two halves, so that again C' overlaps the P' of its own stage and of the one before (in
// graph order).
//
// Parameter gathers and gradient synchronization happen once a step, while the communication stream
// would be idle. The stream sends in order. So a message that is not finished when the next
// communication of the pass is due delays that one. It hides only behind operations before it (in
// graph order; their backward pass comes later) up to the communication that starts the open stage.
// - Gathers: the first microbatch waits for them, and the others have not begun. They hide behind
//   the computation of one microbatch.
// - Synchronization is sent after the backward pass of the last microbatch, and each bucket ends a
//   stage. It hides behind the computation of all microbatches: of the k - 1 further ones, behind
//   the part that exceeds the stage's C. Messages hide there first; C cannot.
// - When a stage starts, min(idle, debt) - C of the idle time beside one microbatch remains.
// - A hidden second costs `interference`, any other one a second. The same holds for seconds of C
//   that should hide behind the debt while a message still hides there.
// - Within an operation a gather comes after the communication. A synchronization comes before it
//   (in graph order), behind the gradients of the weights.
//
// Measured against the simulation of what lower() writes: tests/bench/README.md. The time is
// monotone: it does not grow if any cost of the plan becomes less.
//
// Throws Error(internal) for a plan of another problem, or with other stages than its choices need.
Evaluation evaluate(const Problem& problem, const Plan& plan);
// With the stages that the choices need.
Evaluation evaluate(const Problem& problem, const std::vector<int>& choices);

// The operations that communicate in either pass.
std::vector<bool> needed_starts(const Problem& problem, const std::vector<int>& choices);

}  // namespace hidup
