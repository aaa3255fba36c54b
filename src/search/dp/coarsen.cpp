#include "search/dp/coarsen.h"

#include <algorithm>
#include <map>
#include <utility>

namespace hidup {
namespace {

enum class Reading { exact, free, none };

// Returns a flag per tensor of the problem.
std::vector<bool> are_small(const Problem& problem, double small_s) {
  const auto dearest = [&](const Reshards& reshards) {
    double most = 0.0;
    for (const Reshard& reshard : reshards.all) {
      most = std::max(most, problem.microbatches * (reshard.comm_s + reshard.compute_s));
    }
    return most;
  };
  std::vector<bool> small;
  for (const TensorCosts& tensor : problem.tensors) {
    small.push_back(std::max(dearest(tensor.forward), dearest(tensor.backward)) <= small_s);
  }
  return small;
}

class Coarsener {
 public:
  Coarsener(const Problem& problem, double small_s)
      : problem_(problem), small_(are_small(problem, small_s)) {
    find_last_readers();
  }

  Problem run() {
    Problem result = problem_;
    for (size_t t = 0; t < result.tensors.size(); ++t) {
      if (small_[t]) {
        std::ranges::fill(result.tensors[t].forward.all, Reshard{});
        std::ranges::fill(result.tensors[t].backward.all, Reshard{});
      }
    }
    result.kinds.clear();
    for (size_t op = 0; op < problem_.ops.size(); ++op) {
      const std::vector<Reading> readings = readings_of(op);
      const auto [at, is_new] =
          kinds_.try_emplace({problem_.ops[op].kind, readings}, static_cast<int>(kinds_.size()));
      if (is_new) {
        result.kinds.push_back(with_readings(problem_.choices_of(op), readings));
      }
      result.ops[op].kind = at->second;
      erase_unread(result.ops[op].inputs, readings);
    }
    return result;
  }

 private:
  void find_last_readers() {
    const size_t count = problem_.ops.size();
    last_.resize(count);
    several_.resize(count);
    for (size_t op = 0; op < count; ++op) {
      for (const int input : problem_.ops[op].inputs) {
        const auto producer = static_cast<size_t>(input);
        several_[producer] = several_[producer] || (last_[producer] != 0 && last_[producer] != op);
        last_[producer] = op;
      }
    }
  }

  std::vector<Reading> readings_of(size_t op) const {
    std::vector<Reading> readings;
    for (const int input : problem_.ops[op].inputs) {
      const auto producer = static_cast<size_t>(input);
      const bool small = small_[static_cast<size_t>(problem_.choices_of(producer).tensor)];
      readings.push_back(several_[producer] && last_[producer] == op ? Reading::none
                         : small                                     ? Reading::free
                                                                     : Reading::exact);
    }
    return readings;
  }

  OpChoices with_readings(OpChoices kind, const std::vector<Reading>& readings) const {
    for (Choice& choice : kind.choices) {
      if (small_[static_cast<size_t>(kind.tensor)]) {
        choice.output = 0;
      }
      for (size_t i = 0; i < readings.size(); ++i) {
        if (readings[i] == Reading::free) {
          choice.inputs[i] = {0, choice.inputs[i].gradient < 0 ? -1 : 0};
        }
      }
      erase_unread(choice.inputs, readings);
    }
    return kind;
  }

  template <typename Item>
  static void erase_unread(std::vector<Item>& inputs, const std::vector<Reading>& readings) {
    size_t kept = 0;
    for (size_t i = 0; i < readings.size(); ++i) {
      if (readings[i] != Reading::none) {
        inputs[kept++] = inputs[i];
      }
    }
    inputs.resize(kept);
  }

  const Problem& problem_;
  std::vector<bool> small_;    // per tensor
  std::vector<size_t> last_;   // per operation: the last reader of its output
  std::vector<bool> several_;  // per operation: several operations read its output
  std::map<std::pair<int, std::vector<Reading>>, int> kinds_;
};

}  // namespace

Problem coarsened(const Problem& problem, double small_s) {
  return Coarsener(problem, small_s).run();
}

size_t small_tensors(const Problem& problem, double small_s) {
  return static_cast<size_t>(std::ranges::count(are_small(problem, small_s), true));
}

}  // namespace hidup
