// Settings of products on a GPU: algorithms, and concurrent messages. They have no effect on CPUs.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace hidup::kernels {

// Optimizes later products that overlap messages for `count` fewer multiprocessors than the GPU
// has, and leaves those to the messages. Throws Error(usage) if the GPU has no more than `count`.
void reserve_multiprocessors(int count);

// Marks the products that this thread enqueues while it lives as overlapping messages.
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

// Times of the algorithms that the library proposes for a kind of products, in its order.
struct AlgorithmTimes {
  std::vector<int64_t> product;  // its types, epilogue, sizes, strides and alignments
  std::vector<double> seconds;   // of each algorithm
};

// Times algorithms while it lives. A product that comes for the first time outside a recording runs
// several times with each algorithm that the library proposes, and from then on with the fastest. A
// result that a product adds to is added to as often.
class TimeAlgorithms {
 public:
  TimeAlgorithms();
  ~TimeAlgorithms();  // NOLINT(performance-trivially-destructible): of CPUs, not of GPUs
  TimeAlgorithms(const TimeAlgorithms&) = delete;
  TimeAlgorithms& operator=(const TimeAlgorithms&) = delete;

  // Returns the times of all products that were timed in this process.
  std::vector<AlgorithmTimes> times() const;
};

// Makes later runs of these products use the algorithms with these numbers, from 0 in the order of
// AlgorithmTimes, and other products the first one. A number that the library does not propose is
// an error when the product comes.
void choose_algorithms(const std::map<std::vector<int64_t>, int>& choices);

}  // namespace hidup::kernels
