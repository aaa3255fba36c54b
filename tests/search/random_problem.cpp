#include "random_problem.h"

#include <algorithm>
#include <random>

namespace hidup {
namespace {

class Maker {
 public:
  explicit Maker(const RandomProblem& parameters)
      : parameters_(parameters), random_(parameters.seed) {}

  Problem make() {
    layouts_ = between(1, 3);
    problem_.microbatches = parameters_.microbatches;
    problem_.interference = chance(0.5) ? 0.0 : real(0.0, 1.0);
    problem_.base_s = real(0.0, 1.0);
    problem_.base_bytes = real(0.0, 1.0);
    hidden_messages_ = real(0.0, 1.0);
    first_kind();
    for (size_t op = 0; op < parameters_.ops; ++op) {
      add_kind(op);
    }
    for (size_t block = 0; block < parameters_.blocks; ++block) {
      for (size_t op = 0; op < parameters_.ops; ++op) {
        add_op(block, op);
      }
    }
    return std::move(problem_);
  }

 private:
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  bool chance(double p) { return real(0.0, 1.0) < p; }
  // Returns often 0 and often one of a few numbers, so that some costs are equal.
  double cost() { return chance(0.3) ? 0.0 : chance(0.3) ? between(1, 4) : real(0.0, 5.0); }
  double message() { return chance(hidden_messages_) ? 0.0 : cost(); }

  Reshards reshards() {
    Reshards reshards{.all = {}, .read = layouts_};
    for (int i = 0; i < layouts_; ++i) {
      for (int j = 0; j < layouts_; ++j) {
        reshards.all.push_back(
            i == j ? Reshard{}
                   : Reshard{cost(), chance(0.3) ? cost() : 0.0, chance(0.3) ? cost() : 0.0});
      }
    }
    return reshards;
  }

  Choice choice(size_t inputs) {
    Choice result{.output = between(0, layouts_ - 1),
                  .forward_compute_s = cost(),
                  .backward_compute_s = cost(),
                  .forward_comm_s = chance(0.1) ? cost() : 0.0,
                  .backward_comm_s = chance(0.1) ? cost() : 0.0,
                  .gather_s = message(),
                  .sync_s = message(),
                  .step_s = chance(0.3) ? cost() : 0.0,
                  .persistent_bytes = cost(),
                  .saved_bytes = cost()};
    for (size_t i = 0; i < inputs; ++i) {
      result.inputs.push_back({between(0, layouts_ - 1), between(-1, layouts_ - 1)});
    }
    return result;
  }

  void add_choices(size_t inputs) {
    OpChoices kind{.tensor = static_cast<int>(problem_.tensors.size())};
    problem_.tensors.push_back({reshards(), reshards()});
    const int count = between(1, parameters_.most_choices);
    for (int c = 0; c < count; ++c) {
      kind.choices.push_back(choice(inputs));
    }
    problem_.kinds.push_back(std::move(kind));
  }
  // Adds the operation that the first block reads.
  void first_kind() {
    add_choices(0);
    problem_.ops.push_back({.kind = 0});
  }
  // Adds an operation's kind. The input of a block is the last operation of the one before.
  void add_kind(size_t op) {
    std::vector<size_t> behind;  // distances back to the operations that it reads
    behind.resize(static_cast<size_t>(between(1, 3)));
    for (size_t& distance : behind) {
      distance = static_cast<size_t>(between(1, static_cast<int>(op) + 1));
    }
    behind_.push_back(behind);
    add_choices(behind.size());
  }
  void add_op(size_t block, size_t op) {
    SearchOp self{.kind = static_cast<int>(op) + 1};
    for (const size_t distance : behind_[op]) {
      self.inputs.push_back(static_cast<int>(1 + block * parameters_.ops + op - distance));
    }
    problem_.ops.push_back(std::move(self));
  }

  const RandomProblem& parameters_;
  std::mt19937_64 random_;
  int layouts_ = 1;  // of every tensor
  double hidden_messages_ = 0.0;
  std::vector<std::vector<size_t>> behind_;
  Problem problem_;
};

}  // namespace

Problem random_problem(const RandomProblem& parameters) {
  return Maker(parameters).make();
}

}  // namespace hidup
