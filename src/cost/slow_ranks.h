// Finds ranks that compute more slowly than their class, and groups whose messages became slow.
//
// It gets the times of blocks of some steps, and it knows neither ranks nor clocks. A slow rank
// makes all others wait inside collectives, so only times without such waits tell who is slow: the
// lengths of computations, and the times of collectives from their last arrival (watched_times.h).
//
// A block counts as slow where it takes over 10 % longer than the reference. The reference of a
// part is the median of the others like it in the same block; groups of ranks, and ranks without
// others like them, are compared with their own earlier blocks, too. Five slow blocks one after the
// other are news, if their median excess also stands out of the usual spread. Five blocks within 5
// % are news again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hidup {

// Operations that are slow for a common reason.
enum class OperationClass { products, attention, memory };
inline constexpr size_t kOperationClasses = 3;
// Returns words for people, which follow "in".
std::string_view name_of(OperationClass operations);

// The computation of one rank, or the messages of a group of ranks.
struct WatchedPart {
  std::vector<int64_t> ranks;  // one rank computes; several communicate
  std::string axes = {};       // along which they communicate; empty: the part computes
  // Parts with the same number are compared with each other.
  int64_t like = 0;
  // Expected times, which need only be right relative to those of parts like this one: by operation
  // class; messages have one value.
  std::vector<double> expected;

  bool computes() const { return axes.empty(); }
};

// Times of some steps. A part without times in this block has NaN.
struct WatchedBlock {
  int64_t first = 0;  // steps
  int64_t last = 0;
  double step_s = 0.0;                     // time of a step
  std::vector<std::vector<double>> times;  // [part][as WatchedPart::expected], per step
};

// A part that became slow, or stopped being slow.
struct SlowNews {
  size_t part = 0;
  bool over = false;       // it has its usual pace again
  int64_t since = 0;       // the first step of the blocks that show it
  double slower_by = 0.0;  // excess of its time over the reference: 0.5 takes 1.5 times as long
  // The class of operations in which a slow rank loses most time, and its excess there.
  OperationClass operations = OperationClass::products;
  double operations_slower_by = 0.0;
};

class SlowRanks {
 public:
  // The limits that tests and documents rely on.
  static constexpr double kMargin = 0.10;     // least excess that counts
  static constexpr int64_t kBlockSteps = 10;  // of the blocks that add() expects
  static constexpr size_t kBlocks = 5;        // one after the other, that are news
  static constexpr double kSpreads = 3.0;     // least excess, in spreads of earlier blocks
  // Parts of the time of a step: slowness that costs less is not worth a line.
  static constexpr double kLeastCost = 0.01;
  // A part of another size than the reference may also reach another share of a device's rate. The
  // excess that is believed shrinks by this number per factor e between the expected times.
  static constexpr double kSizeError = 0.25;

  // The parts that compute precede those that communicate.
  explicit SlowRanks(std::vector<WatchedPart> parts);

  const std::vector<WatchedPart>& parts() const { return parts_; }

  // Goes on with the parts of another program on the same ranks, and keeps what is known of the
  // ranks' computations.
  void go_on_with(std::vector<WatchedPart> parts);

  // Adds the next block and returns what it changes.
  std::vector<SlowNews> add(const WatchedBlock& block);

 private:
  // Times over the expected ones: of the whole part, and of its classes.
  struct Paces {
    double whole = 0.0;
    std::vector<double> classes;
  };
  struct Sample {
    Paces paces;
    double excess = 0.0;
  };
  struct State {
    std::deque<Sample> usual;   // blocks in which the part was not slow, the last ones
    std::deque<Sample> streak;  // the last blocks, while each of them is slow
    int64_t since = 0;          // first step of the streak, or of the blocks that end the slowness
    bool slow = false;
    size_t fast_blocks = 0;  // the last ones, while the part is slow
  };
  // The pace to expect of a part, and the excess over it that is believed.
  struct Comparison {
    Paces reference;
    double excess = 0.0;
  };

  static constexpr size_t kMemory = 20;  // blocks

  std::vector<Paces> paces_of(const WatchedBlock& block) const;
  // Compare the part, whose time may be longer by the factor `allowed` for other reasons. Return
  // nothing where there are no others like it, or too few earlier blocks.
  std::optional<Comparison> against_others(size_t part, const std::vector<Paces>& paces,
                                           double allowed) const;
  std::optional<Comparison> against_past(size_t part, const Paces& paces, double allowed) const;
  std::vector<std::optional<Comparison>> compare(const std::vector<Paces>& paces) const;
  bool is_like(size_t part, size_t other) const {
    return parts_[part].like == parts_[other].like &&
           parts_[part].computes() == parts_[other].computes();
  }
  double usual_spread(size_t part) const;
  std::optional<SlowNews> update(size_t part, const WatchedBlock& block, const Paces& paces,
                                 const Comparison& found);
  std::optional<SlowNews> look_for_end(size_t part, const WatchedBlock& block, double excess);
  void keep(State& state, const Sample& sample);
  void blame(size_t part, const std::vector<double>& times, const Paces& paces,
             const Paces& reference, SlowNews& news) const;

  std::vector<WatchedPart> parts_;
  std::vector<State> states_;
};

}  // namespace hidup
