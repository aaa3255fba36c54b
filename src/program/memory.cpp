#include "program/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>

#include "core/check.h"
#include "core/units.h"
#include "program/access.h"
#include "program/occupied.h"

namespace hidup {
namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + kValueAlignment - 1) / kValueAlignment * kValueAlignment;
}

bool is_stored(const Value& value) {
  return value.role == Value::Role::parameter || value.role == Value::Role::optimizer_state;
}

// Lifetimes of values, in moments. A moment of a stream is one of its instructions, from 0.
class Lifetimes {
 public:
  Lifetimes(const Program& program, const RankSteps& steps)
      : program_(program), accesses_(program, steps) {
    const auto count = static_cast<int>(program.instructions.size());
    moments_.reserve(program.instructions.size() + 1);
    std::array<size_t, kStreams> now{};
    for (int i = 0; i < count; ++i) {
      moments_.push_back(now);
      order_[stream_of(i)].push_back(i);
      ++now[stream_of(i)];
    }
    moments_.push_back(now);
    find_done(HappensBefore(program, steps));
  }

  size_t moments(size_t stream) const { return order_[stream].size(); }
  bool is_used(size_t value) const { return !accesses_[value].empty(); }
  int first_use(size_t value) const { return accesses_[value].front().instruction; }
  size_t stream_of(int instruction) const {
    return static_cast<size_t>(program_.instructions[static_cast<size_t>(instruction)].stream);
  }
  // Returns the stream's first moment that is not before the instruction in the list.
  size_t moment_of(size_t instruction, size_t stream) const {
    return moments_[instruction][stream];
  }
  size_t instructions() const { return program_.instructions.size(); }
  // Returns the stream's instruction at that moment; the list's size after the last one.
  size_t instruction_at(size_t moment, size_t stream) const {
    return moment < moments(stream) ? static_cast<size_t>(order_[stream][moment]) : instructions();
  }
  // Returns the stream's first moment after all uses of the value, whatever the timing.
  size_t end(size_t value, size_t stream) const {
    size_t end = 0;
    for (const int use : accesses_.last_uses(value)) {
      end = use < 0 ? end : std::max(end, done_[static_cast<size_t>(use)][stream]);
    }
    return end;
  }

 private:
  // Both rise along a stream: the instructions, and the moments before which they are done.
  void find_done(const HappensBefore& before) {
    done_.resize(instructions());
    for (size_t stream = 0; stream < kStreams; ++stream) {
      for (const std::vector<int>& others : order_) {
        size_t moment = 0;
        for (const int other : others) {
          while (moment < moments(stream) && !before(other, order_[stream][moment])) {
            ++moment;
          }
          done_[static_cast<size_t>(other)][stream] = moment;
        }
      }
    }
  }

  const Program& program_;
  Accesses accesses_;
  std::array<std::vector<int>, kStreams> order_;  // per stream: its instructions
  // Per instruction and stream, the first moment that is not before it in the list, and the first
  // that is after its end whatever the timing.
  std::vector<std::array<size_t, kStreams>> moments_, done_;
};

class Planner {
 public:
  Planner(const Program& program, int64_t rank)
      : program_(program),
        lifetimes_(program, RankSteps(program, rank)),
        born_(program.instructions.size()) {
    plan_.rank = rank;
    plan_.offsets.assign(program.values.size(), 0);
    plan_.sizes.reserve(program.values.size());
    for (size_t v = 0; v < program.values.size(); ++v) {
      plan_.sizes.push_back(program.local_bytes(static_cast<ValueId>(v), rank));
    }
    for (size_t stream = 0; stream < kStreams; ++stream) {
      living_.emplace_back(lifetimes_.moments(stream));
      born_on_.emplace_back(lifetimes_.moments(stream));
    }
  }

  void place_stored(const StoredValues& stored) {
    for (size_t v = 0; v < program_.values.size(); ++v) {
      const Value& value = program_.values[v];
      if (is_stored(value)) {
        const auto found = stored.places.find(value.name);
        check(found != stored.places.end() && found->second.dtype == value.dtype &&
                  found->second.layout == value.layout,
              "{} is not stored as the program takes it", value.name);
        plan_.offsets[v] = found->second.offset;
      }
    }
    plan_.bytes = stored.bytes;
    stored_ = true;
  }

  MemoryPlan run() {
    plan_.parameter_bytes = place_role(Value::Role::parameter);
    plan_.gradient_bytes = place_role(Value::Role::gradient);
    plan_.optimizer_bytes = place_role(Value::Role::optimizer_state);
    place_role(Value::Role::input);
    place_role(Value::Role::result);
    place_role(Value::Role::counts);
    place_activations();
    return std::move(plan_);
  }

 private:
  int64_t place_role(Value::Role role) {
    const int64_t start = plan_.bytes;
    for (size_t v = 0; v < program_.values.size(); ++v) {
      const Value& value = program_.values[v];
      if (value.role == role && !(stored_ && is_stored(value))) {
        plan_.offsets[v] = plan_.bytes;
        plan_.bytes += aligned(plan_.sizes[v]);
      }
    }
    return plan_.bytes - start;
  }

  // Places greedily by size: the largest first, each at the lowest offset where it meets no value
  // that lives at the same time. Of equal sizes, the first used goes first. Values of one moment
  // then lie together, and the search for a gap passes few ranges.
  void place_activations() {
    std::vector<std::tuple<int64_t, int, size_t>> order;  // minus the size, first use, value
    for (size_t v = 0; v < program_.values.size(); ++v) {
      if (!program_.values[v].persistent() && lifetimes_.is_used(v)) {
        order.emplace_back(-plan_.sizes[v], lifetimes_.first_use(v), v);
      }
    }
    std::ranges::sort(order);
    const int64_t start = plan_.bytes;
    for (const auto& [size, first, v] : order) {
      place(v, start);
    }
    plan_.activation_bytes = plan_.bytes - start;
  }

  // Two values may overlap if the first use of one comes after all uses of the other. So a value
  // avoids those that live at its first use, and those whose first use falls into its life.
  void place(size_t v, int64_t start) {
    const int first = lifetimes_.first_use(v);
    const auto from = static_cast<size_t>(first);
    const size_t own = lifetimes_.stream_of(first);
    const size_t born = lifetimes_.moment_of(from, own);
    in_the_way_.clear();
    living_[own].append_at(born, in_the_way_);
    struct Span {
      size_t begin = 0, end = 0;
    };
    std::array<Span, kStreams> spans;
    size_t end_of_all = lifetimes_.instructions();  // the value lives on all streams until then
    for (size_t stream = 0; stream < kStreams; ++stream) {
      spans[stream] = {lifetimes_.moment_of(from, stream), lifetimes_.end(v, stream)};
      end_of_all = std::min(end_of_all, lifetimes_.instruction_at(spans[stream].end, stream));
    }
    born_.append_during(from, end_of_all, in_the_way_);
    for (size_t stream = 0; stream < kStreams; ++stream) {  // it may live longer on one
      const size_t rest = lifetimes_.moment_of(std::max(from, end_of_all), stream);
      born_on_[stream].append_during(rest, spans[stream].end, in_the_way_);
    }
    const int64_t size = aligned(plan_.sizes[v]);
    const int64_t offset = free_of_all(in_the_way_, start, size);
    plan_.offsets[v] = offset;
    plan_.bytes = std::max(plan_.bytes, offset + size);
    born_.add_at(from, offset, offset + size);
    born_on_[own].add_at(born, offset, offset + size);
    for (size_t stream = 0; stream < kStreams; ++stream) {
      living_[stream].add_during(spans[stream].begin, spans[stream].end, offset, offset + size);
    }
  }

  const Program& program_;
  Lifetimes lifetimes_;
  MemoryPlan plan_;
  bool stored_ = false;  // parameters and optimizer state have their places
  // Bytes of values by the instruction of their first use, for all streams together. Values of one
  // size alternate between streams: with a structure per stream, a search would stop at gaps of one
  // that the other fills.
  OccupiedBytes born_;
  // Per stream: bytes of values by the moments of their life, and by the moment of their first use.
  std::vector<OccupiedBytes> living_, born_on_;
  std::vector<InTheWay> in_the_way_;
};

std::string_view name_of(Value::Role role) {
  switch (role) {
    case Value::Role::input:
      return "input";
    case Value::Role::parameter:
      return "parameter";
    case Value::Role::gradient:
      return "gradient";
    case Value::Role::optimizer_state:
      return "optimizer state";
    case Value::Role::result:
      return "result";
    case Value::Role::counts:
      return "counts";
    case Value::Role::activation:
      return "activation";
  }
  fail(ExitCode::internal, "a value of unknown role");
}

}  // namespace

MemoryPlan plan_memory(const Program& program, int64_t rank) {
  return Planner(program, rank).run();
}

MemoryPlan plan_memory(const Program& program, int64_t rank, const StoredValues& stored) {
  Planner planner(program, rank);
  planner.place_stored(stored);
  return planner.run();
}

std::vector<int64_t> bytes_of_ranks(const Program& program) {
  std::map<int64_t, int64_t> bytes_of_kind;  // by the first rank of a kind
  std::vector<int64_t> bytes;
  for (const int64_t kind : alike_ranks(program)) {
    const auto [found, is_new] = bytes_of_kind.try_emplace(kind);
    if (is_new) {
      found->second = plan_memory(program, kind).bytes;
    }
    bytes.push_back(found->second);
  }
  return bytes;
}

int64_t tightest_rank(const std::vector<int64_t>& bytes_of_ranks, const RankLimits& limits) {
  const auto part = [&](size_t rank) {
    const auto bytes = static_cast<double>(bytes_of_ranks[rank]);
    return limits.empty() ? bytes : bytes / static_cast<double>(limits[rank]);
  };
  size_t tightest = 0;
  for (size_t rank = 1; rank < bytes_of_ranks.size(); ++rank) {
    tightest = part(rank) > part(tightest) ? rank : tightest;
  }
  return static_cast<int64_t>(tightest);
}

MemoryPlan tightest_plan(const Program& program, const RankLimits& limits) {
  return limits.empty() ? largest_plan(program)
                        : plan_memory(program, tightest_rank(bytes_of_ranks(program), limits));
}

MemoryPlan largest_plan(const Program& program) {
  MemoryPlan largest = plan_memory(program, 0);
  if (has_unequal_parts(program)) {
    for (const int64_t rank : distinct_ranks(program)) {
      MemoryPlan plan = plan_memory(program, rank);
      if (plan.bytes > largest.bytes) {
        largest = std::move(plan);
      }
    }
  }
  return largest;
}

StoredValues stored_values(const Program& program, const MemoryPlan& plan) {
  StoredValues stored{.bytes = plan.bytes - plan.activation_bytes};
  for (size_t v = 0; v < program.values.size(); ++v) {
    const Value& value = program.values[v];
    if (is_stored(value)) {
      stored.places[value.name] = {plan.offsets[v], value.dtype, value.layout};
    }
  }
  return stored;
}

std::string describe(const MemoryPlan& plan) {
  return fmt::format(
      "{} per rank: parameters {}, gradients {}, optimizer {}, "
      "activations and gathered parameters {}",
      format_bytes(plan.bytes), format_bytes(plan.parameter_bytes),
      format_bytes(plan.gradient_bytes), format_bytes(plan.optimizer_bytes),
      format_bytes(plan.activation_bytes));
}

std::string largest_values(const Program& program, const MemoryPlan& plan, size_t count) {
  std::vector<size_t> order(program.values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t v) { return plan.sizes[v]; });
  order.resize(std::min(count, order.size()));
  std::string text;
  for (const size_t v : order) {
    text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", program.values[v].name,
                        format_bytes(plan.sizes[v]), name_of(program.values[v].role));
  }
  return text;
}

}  // namespace hidup
