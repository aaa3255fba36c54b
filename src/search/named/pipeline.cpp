#include "search/named/pipeline.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "graph/flops.h"
#include "schedule/named.h"
#include "sharding/stages.h"

namespace hidup {
namespace {

// Returns, per place behind an operation, the activations that later operations read.
std::vector<int> activations_behind(const Graph& graph) {
  const size_t count = graph.ops().size();
  std::vector<size_t> last_reader(count, 0);
  for (size_t op = 0; op < count; ++op) {
    for (const TensorId input : graph.ops()[op].inputs) {
      if (const OpId producer = graph.tensor(input).producer; producer >= 0) {
        last_reader[static_cast<size_t>(producer)] = op;
      }
    }
  }
  std::vector<int> changes(count + 1, 0);
  for (size_t op = 0; op < count; ++op) {
    if (last_reader[op] > op) {
      ++changes[op];
      --changes[last_reader[op]];
    }
  }
  std::vector<int> behind(count);
  std::partial_sum(changes.begin(), changes.end() - 1, behind.begin());
  return behind;
}

// Returns the places to cut at, each behind an operation, in order: those with the fewest
// activations, and with as many more as `wanted` cuts need.
std::vector<size_t> places_to_cut(const Graph& graph, size_t wanted) {
  const std::vector<int> behind = activations_behind(graph);
  std::vector<int> numbers(behind.begin(), behind.end() - 1);
  std::ranges::sort(numbers);
  if (numbers.size() < wanted) {
    fail(ExitCode::usage, "{} stages are more than the graph's {} operations", wanted + 1,
         behind.size());
  }
  const int most = wanted == 0 ? 0 : numbers[wanted - 1];
  std::vector<size_t> places;
  for (size_t op = 0; op + 1 < behind.size(); ++op) {
    if (behind[op] <= most) {
      places.push_back(op);
    }
  }
  return places;
}

// Returns the ends of the first chunks so that none but the last has more than `most`, and leaves
// enough pieces for the chunks that follow. `pieces`: the flops between two places to cut.
std::vector<size_t> ends_within(const std::vector<double>& pieces, size_t chunks, double most) {
  std::vector<size_t> ends;
  double sum = 0.0;
  for (size_t piece = 0; piece < pieces.size() && ends.size() + 1 < chunks; ++piece) {
    const size_t left = pieces.size() - piece;    // with this one
    const size_t to_come = chunks - ends.size();  // with this one
    const bool is_full = sum > 0.0 && sum + pieces[piece] > most;
    if (piece > (ends.empty() ? 0 : ends.back()) && (is_full || left < to_come)) {
      ends.push_back(piece);
      sum = 0.0;
    }
    sum += pieces[piece];
  }
  while (ends.size() + 1 < chunks) {  // one piece for each chunk that is left
    ends.push_back(pieces.size() - (chunks - 1 - ends.size()));
  }
  return ends;
}

double largest(const std::vector<double>& pieces, const std::vector<size_t>& ends) {
  double most = 0.0;
  size_t begin = 0;
  for (size_t chunk = 0; chunk <= ends.size(); ++chunk) {
    const size_t end = chunk < ends.size() ? ends[chunk] : pieces.size();
    double sum = 0.0;
    for (size_t piece = begin; piece < end; ++piece) {
      sum += pieces[piece];
    }
    most = std::max(most, sum);
    begin = end;
  }
  return most;
}

}  // namespace

std::vector<int> divide_in_chunks(const Graph& graph, int chunks) {
  const auto wanted = static_cast<size_t>(chunks);
  const std::vector<size_t> places = places_to_cut(graph, wanted - 1);
  std::vector<double> flops;
  for (const Op& op : graph.ops()) {
    flops.push_back(forward_flops(graph, op));
  }
  std::vector<double> pieces;
  size_t begin = 0;
  for (size_t piece = 0; piece <= places.size(); ++piece) {
    const size_t end = piece < places.size() ? places[piece] + 1 : flops.size();
    pieces.push_back(1.0 + std::accumulate(flops.begin() + static_cast<std::ptrdiff_t>(begin),
                                           flops.begin() + static_cast<std::ptrdiff_t>(end), 0.0));
    begin = end;
  }
  // Bisection of the largest chunk.
  double low = 0.0;
  double high = std::accumulate(pieces.begin(), pieces.end(), 0.0);
  std::vector<size_t> ends = ends_within(pieces, wanted, high);
  for (int i = 0; i < 60; ++i) {
    const double most = (low + high) / 2;
    const std::vector<size_t> found = ends_within(pieces, wanted, most);
    const bool fits = largest(pieces, found) <= most;
    (fits ? high : low) = most;
    ends = fits ? found : ends;
  }
  std::vector<int> chunk_of;
  int chunk = 0;
  for (size_t op = 0; op < flops.size(); ++op) {
    chunk_of.push_back(chunk);
    const auto at = static_cast<size_t>(chunk);
    if (at < ends.size() && places[ends[at] - 1] == op) {
      ++chunk;
    }
  }
  return chunk_of;
}

Strategy with_stages(const Graph& graph, Strategy strategy, const StageSchedule& schedule) {
  const size_t axis = schedule.axis;
  const auto devices = static_cast<int>(strategy.mesh[axis].size);
  pipeline::Pipeline pipeline;
  if (const pipeline::NamedSchedule* named = pipeline::find_schedule(schedule.name)) {
    pipeline = named_pipeline(*named, {.chunks = devices * named->chunks_per_device,
                                       .devices = devices,
                                       .microbatches = strategy.accumulate,
                                       .k = schedule.k,
                                       .live = schedule.live});
  } else {
    pipeline = pipeline::pipeline_of(schedule.custom, strategy.accumulate);
  }
  const std::vector<int> chunk_of = divide_in_chunks(graph, pipeline.chunks());
  std::vector<int64_t> home(graph.tensors().size(), -1);  // per parameter: of its first reader
  for (size_t op = 0; op < strategy.ops.size(); ++op) {
    const int64_t rank = pipeline.device(chunk_of[op]);
    const Rule whole = replicate_rule(graph, static_cast<OpId>(op));
    strategy.ops[op].rules[axis] =
        devices == 1 ? whole : with_share(whole, strategy.mesh[axis], ShareNumber::only(rank));
    for (const TensorId input : graph.ops()[op].inputs) {
      int64_t& of_tensor = home[static_cast<size_t>(input)];
      of_tensor = of_tensor < 0 ? rank : of_tensor;
    }
  }
  for (ParameterStrategy& parameter : strategy.parameters) {
    const int64_t rank = home[static_cast<size_t>(parameter.tensor)];
    if (rank >= 0 && devices > 1) {
      parameter.storage[axis] = parameter.optimizer_state[axis] =
          Placement::replicate(ShareNumber::only(rank));
    }
  }
  strategy.schedule = schedule;
  strategy.schedule->cuts.clear();
  for (size_t op = 1; op < chunk_of.size(); ++op) {
    const bool begins = chunk_of[op] != chunk_of[op - 1];
    if (begins && pipeline.device(chunk_of[op]) == pipeline.device(chunk_of[op - 1])) {
      strategy.schedule->cuts.push_back(static_cast<OpId>(op));
    }
  }
  schedule_of(graph, strategy, stages_of(graph, strategy));  // throws where it does not fit
  return strategy;
}

}  // namespace hidup
