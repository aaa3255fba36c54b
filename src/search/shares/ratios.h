// The linear program of unequal shares: how much of the work, and of the state of the optimizer, a
// rank of each class of devices takes.
//
// After HAP (Zhang et al., EuroSys 2024), whose program has stages of one computation and one
// collective. Here a phase of the step is a stage, communication may overlap with computation, the
// state has shares of its own (Cephalo), and memory is a row for each class.
#pragma once

#include <optional>
#include <vector>

namespace hidup {

// A quantity that grows with two shares: of the computation and of the state.
struct Affine {
  double fixed = 0.0;
  double of_compute = 0.0;
  double of_state = 0.0;

  double at(double compute, double state) const {
    return fixed + of_compute * compute + of_state * state;
  }
};

// A phase takes as long as its slowest class computes, or as its messages where these overlap with
// computation and take longer, or else as both one after the other.
struct RatioPhase {
  std::vector<Affine> compute_s;  // of a rank, by class
  Affine comm_s;                  // by the largest shares of a rank
  bool overlaps = true;
};

struct RatioProgram {
  std::vector<double> ranks;  // by class
  std::vector<RatioPhase> phases;
  std::vector<Affine> bytes;   // of a rank, by class; empty: memory has no limit
  std::vector<double> limits;  // of these bytes
};

// The share of one rank of each class. With the class's ranks as weights they add up to 1.
struct Ratios {
  std::vector<double> compute;
  std::vector<double> state;
  double seconds = 0.0;  // seconds_at() these shares
};

// Returns the seconds of all phases; `compute` and `state` by class.
double seconds_at(const RatioProgram& program, const std::vector<double>& compute,
                  const std::vector<double>& state);

// Returns the shares of the least seconds; where several have them, the most equal ones. Returns
// none where nothing fits in memory. Throws Error(internal) where the solver fails.
std::optional<Ratios> solve_ratios(const RatioProgram& program);

}  // namespace hidup
