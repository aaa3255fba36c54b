// How products are computed on a GPU: by which algorithms, and beside what. On CPUs nothing of it
// has an effect.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace hidup::kernels {

// From now on products that run beside messages are made for so many multiprocessors less than the
// GPU has, which they leave to the messages. Throws Error(usage) where it has no more than these.
void reserve_multiprocessors(int count);

// While one lives, the products that this thread gives to streams run beside messages.
class BesideMessages {
 public:
  BesideMessages() { now_ = true; }
  ~BesideMessages() { now_ = false; }
  BesideMessages(const BesideMessages&) = delete;
  BesideMessages& operator=(const BesideMessages&) = delete;

  static bool now() { return now_; }

 private:
  inline static thread_local bool now_ = false;
};

// What the algorithms take that the library proposes for a kind of products, in its order.
struct AlgorithmTimes {
  std::vector<int64_t> product;  // its types, epilogue, sizes, strides and alignments
  std::vector<double> seconds;   // of each
};

// While one lives, products that come for the first time outside a recording are computed by each
// algorithm that the library proposes, several times, and from then on by the fastest. What they
// add to is added to as often.
class TimeAlgorithms {
 public:
  TimeAlgorithms();
  ~TimeAlgorithms();  // NOLINT(performance-trivially-destructible): of CPUs, not of GPUs
  TimeAlgorithms(const TimeAlgorithms&) = delete;
  TimeAlgorithms& operator=(const TimeAlgorithms&) = delete;

  // Of all products that were timed in this process.
  std::vector<AlgorithmTimes> times() const;
};

// From now on these products are computed by the algorithms with these numbers, from 0 in the order
// of AlgorithmTimes, and all others by the first. One that the library does not propose is an error
// when the product comes.
void choose_algorithms(const std::map<std::vector<int64_t>, int>& choices);

}  // namespace hidup::kernels
