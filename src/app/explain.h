// Explains the time and memory of a step under a strategy, and why other strategies lose.
#pragma once

#include <string>
#include <vector>

#include "app/planning.h"
#include "search/search.h"

namespace hidup {

// Predicted seconds of a rank in a step, over all microbatches.
struct PassTimes {
  double compute_s = 0.0;
  double comm_s = 0.0;
  double exposed_s = 0.0;  // part of comm_s without computation
};

// An operation, with the communication of its output, of its gradient and within it.
struct OperationReport {
  OpId op = -1;
  PassTimes forward, backward;
};

// Communication, then computation, of a pass; `first` is the first operation.
struct StageReport {
  Phase phase = Phase::forward;
  OpId first = -1;
  PassTimes times;
};

// Work done in buckets for several operations: gathering parameters, sending gradients, the update.
struct BucketReport {
  std::string name;
  PassTimes times;
};

// Collectives with the same route and algorithm, whose names differ in numbers only.
struct MessageReport {
  std::string name;           // with * for numbers
  std::string way;            // "all_reduce node+gpu, hierarchical"
  std::vector<double> bytes;  // per axis, for collectives along it, as paced_bytes()
  int count = 0;
  PassTimes times;
};

struct Explanation {
  std::vector<OperationReport> operations;  // in graph order
  std::vector<StageReport> stages;          // forward, then backward
  std::vector<BucketReport> buckets;
  std::vector<MessageReport> messages;  // in the order of first use
};

// Reports one collective, as on rank 0.
MessageReport message_report(const Program& program, const Instruction& collective);

Explanation explain_step(const Graph& graph, const Forecast& step);

// Returns the fastest candidate of every named strategy and of the search's own, fastest first,
// infeasible ones last. Predicts names that the search left out; predicts all where devices differ,
// because the search rests on the slowest.
std::vector<Candidate> best_of_each_name(const SearchOutcome& found, const PlanningInput& input,
                                         const RankCosts& costs);

// Returns, without a search, the explained strategy and every named one with as many microbatches,
// in the same order. `costs`: set the messages of named ones; `options`: hints and memory limit.
std::vector<Candidate> beside_named(const Candidate& explained, const PlanningInput& input,
                                    const Profile& costs, const SearchOptions& options);

// Returns a short reason why a step of `loser` is longer than one of `best`.
std::string why_slower(const Candidate& loser, const Candidate& best);

}  // namespace hidup
