#include "search/shares/ratios.h"

#include <ClpSimplex.hpp>
#include <algorithm>

#include "core/check.h"

namespace hidup {
namespace {

// Where shares do not matter, equal ones are best. The price of the largest share, relative to the
// step's time, is below the errors of predictions.
constexpr double kPriceOfUnequal = 1e-5;

double largest(const std::vector<double>& shares) {
  return *std::ranges::max_element(shares);
}

// A linear expression of the program's columns.
class Row {
 public:
  Row& add(int column, double factor) {
    columns_.push_back(column);
    factors_.push_back(factor);
    return *this;
  }
  // Requires that the expression is between these bounds.
  void require(ClpSimplex& model, double least, double most) const {
    model.addRow(static_cast<int>(columns_.size()), columns_.data(), factors_.data(), least, most);
  }

 private:
  std::vector<int> columns_;
  std::vector<double> factors_;
};

// Columns: each class's share of the computation, each class's share of the state, the largest of
// either, and the seconds of each phase.
class Columns {
 public:
  explicit Columns(const RatioProgram& program)
      : classes_(program.ranks.size()), phases_(program.phases.size()) {}

  int compute(size_t of) const { return static_cast<int>(of); }
  int state(size_t of) const { return static_cast<int>(classes_ + of); }
  int largest_compute() const { return static_cast<int>(2 * classes_); }
  int largest_state() const { return largest_compute() + 1; }
  int seconds(size_t phase) const { return static_cast<int>(2 * classes_ + 2 + phase); }
  int count() const { return static_cast<int>(2 * classes_ + 2 + phases_); }

 private:
  size_t classes_;
  size_t phases_;
};

void add_phase(ClpSimplex& model, const Columns& columns, const RatioPhase& phase, size_t number,
               double unit_s) {
  const auto at_least = [&](const Row& row, double fixed) {
    row.require(model, fixed / unit_s, COIN_DBL_MAX);
  };
  const Affine& comm = phase.comm_s;
  for (size_t c = 0; c < phase.compute_s.size(); ++c) {
    const Affine& compute = phase.compute_s[c];
    Row row;
    row.add(columns.seconds(number), 1.0)
        .add(columns.compute(c), -compute.of_compute / unit_s)
        .add(columns.state(c), -compute.of_state / unit_s);
    if (phase.overlaps) {
      at_least(row, compute.fixed);
    } else {
      row.add(columns.largest_compute(), -comm.of_compute / unit_s)
          .add(columns.largest_state(), -comm.of_state / unit_s);
      at_least(row, compute.fixed + comm.fixed);
    }
  }
  at_least(Row()
               .add(columns.seconds(number), 1.0)
               .add(columns.largest_compute(), -comm.of_compute / unit_s)
               .add(columns.largest_state(), -comm.of_state / unit_s),
           comm.fixed);
}

void add_shares(ClpSimplex& model, const Columns& columns, const std::vector<double>& ranks) {
  Row all_compute;
  Row all_state;
  for (size_t c = 0; c < ranks.size(); ++c) {
    all_compute.add(columns.compute(c), ranks[c]);
    all_state.add(columns.state(c), ranks[c]);
    Row()
        .add(columns.largest_compute(), 1.0)
        .add(columns.compute(c), -1.0)
        .require(model, 0.0, COIN_DBL_MAX);
    Row()
        .add(columns.largest_state(), 1.0)
        .add(columns.state(c), -1.0)
        .require(model, 0.0, COIN_DBL_MAX);
  }
  all_compute.require(model, 1.0, 1.0);
  all_state.require(model, 1.0, 1.0);
}

}  // namespace

double seconds_at(const RatioProgram& program, const std::vector<double>& compute,
                  const std::vector<double>& state) {
  double sum_s = 0.0;
  for (const RatioPhase& phase : program.phases) {
    double compute_s = 0.0;
    for (size_t c = 0; c < compute.size(); ++c) {
      compute_s = std::max(compute_s, phase.compute_s[c].at(compute[c], state[c]));
    }
    const double comm_s = phase.comm_s.at(largest(compute), largest(state));
    sum_s += phase.overlaps ? std::max(compute_s, comm_s) : compute_s + comm_s;
  }
  return sum_s;
}

std::optional<Ratios> solve_ratios(const RatioProgram& program) {
  const size_t classes = program.ranks.size();
  double all = 0.0;
  for (const double ranks : program.ranks) {
    all += ranks;
  }
  const std::vector<double> equal(classes, 1.0 / all);
  const double unit_s = seconds_at(program, equal, equal);  // seconds of the model are about 1
  check(unit_s > 0.0, "a step that takes no time");

  const Columns columns(program);
  ClpSimplex model;
  model.setLogLevel(0);
  model.resize(0, columns.count());
  for (int column = 0; column < columns.count(); ++column) {
    model.setColumnBounds(column, 0.0, COIN_DBL_MAX);
  }
  for (size_t phase = 0; phase < program.phases.size(); ++phase) {
    model.setObjectiveCoefficient(columns.seconds(phase), 1.0);
    add_phase(model, columns, program.phases[phase], phase, unit_s);
  }
  model.setObjectiveCoefficient(columns.largest_compute(), kPriceOfUnequal * all);
  model.setObjectiveCoefficient(columns.largest_state(), kPriceOfUnequal * all);
  add_shares(model, columns, program.ranks);
  for (size_t c = 0; c < program.bytes.size(); ++c) {
    const Affine& bytes = program.bytes[c];
    Row()
        .add(columns.compute(c), bytes.of_compute / program.limits[c])
        .add(columns.state(c), bytes.of_state / program.limits[c])
        .require(model, -COIN_DBL_MAX, 1.0 - bytes.fixed / program.limits[c]);
  }
  model.dual();
  if (model.isProvenPrimalInfeasible()) {
    return std::nullopt;
  }
  check(model.isProvenOptimal(), "the linear program of shares has no optimum");
  const double* solution = model.primalColumnSolution();
  Ratios ratios{.compute = {solution, solution + classes},
                .state = {solution + classes, solution + 2 * classes}};
  ratios.seconds = seconds_at(program, ratios.compute, ratios.state);
  return ratios;
}

}  // namespace hidup
