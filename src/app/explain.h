// Where a step's time and memory go under a strategy, and why others lose to it.
#pragma once

#include <string>
#include <vector>

#include "app/planning.h"
#include "search/search.h"

namespace hidup {

// Seconds of a rank in a step, of all microbatches, as predicted.
struct PassTimes {
  double compute_s = 0.0;
  double comm_s = 0.0;
  double exposed_s = 0.0;  // of comm_s: nothing was computed meanwhile
};

// An operation; communication is that of its output, of its gradient and within it.
struct OperationReport {
  OpId op = -1;
  PassTimes forward, backward;
};

// Communication, then computation, of a pass; `first` is the operation it begins with.
struct StageReport {
  Phase phase = Phase::forward;
  OpId first = -1;
  PassTimes times;
};

// What is done in buckets, for several operations at once: parameters gathered, gradients sent,
// the update.
struct BucketReport {
  std::string name;
  PassTimes times;
};

// Collectives whose names differ in numbers only and that go the same way.
struct MessageReport {
  std::string name;           // with * for numbers
  std::string way;            // "all_reduce node+gpu, hierarchical"
  std::vector<double> bytes;  // per axis, of the collectives along it, as paced_bytes() counts them
  int count = 0;
  PassTimes times;
};

struct Explanation {
  std::vector<OperationReport> operations;  // in graph order
  std::vector<StageReport> stages;          // forward, then backward
  std::vector<BucketReport> buckets;
  std::vector<MessageReport> messages;  // in the order of the first of each
};

// Of one collective, as rank 0 does it.
MessageReport message_report(const Program& program, const Instruction& collective);

Explanation explain_step(const Graph& graph, const Forecast& step);

// The fastest candidate of every named strategy, and of the search's own, fastest first and those
// that do not fit last; names that the search left out are predicted here, and all where devices
// differ, because the search rests on the slowest.
std::vector<Candidate> best_of_each_name(const SearchOutcome& found, const PlanningInput& input,
                                         const RankCosts& costs);

// The explained strategy and every named one with as many microbatches, in the same order: without
// a search. `costs`: those by which named ones choose their ways; `options`: the hints and the
// memory that they have to keep.
std::vector<Candidate> beside_named(const Candidate& explained, const PlanningInput& input,
                                    const Profile& costs, const SearchOptions& options);

// In a few words, what makes a step of `loser` longer than one of `best`.
std::string why_slower(const Candidate& loser, const Candidate& best);

}  // namespace hidup
