#include <cmath>
#include <vector>

#include "kernels/positions.h"

namespace hidup::kernels {
namespace {

struct Table {
  int64_t first_position = 0;
  int64_t sequence = 0;
  int64_t hidden = 0;
  std::vector<float> values;  // [sequence, hidden]

  void compute(int64_t for_first_position, int64_t for_sequence, int64_t for_hidden) {
    first_position = for_first_position;
    sequence = for_sequence;
    hidden = for_hidden;
    values.resize(static_cast<size_t>(sequence * hidden));
    float* out = values.data();
#pragma omp parallel for schedule(static)
    for (int64_t j = 0; j < hidden; ++j) {
      const double exponent = static_cast<double>(j - j % 2) / static_cast<double>(hidden);
      const double frequency = std::pow(10000.0, -exponent);
      for (int64_t s = 0; s < sequence; ++s) {
        const double angle = static_cast<double>(first_position + s) * frequency;
        out[s * hidden + j] = static_cast<float>(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
      }
    }
  }
};

// One stream is one thread: each has its own table and needs no lock.
const float* table_of(int64_t first_position, int64_t sequence, int64_t hidden) {
  thread_local Table table;
  if (table.first_position != first_position || table.sequence != sequence ||
      table.hidden != hidden) {
    table.compute(first_position, sequence, hidden);
  }
  return table.values.data();
}

}  // namespace

void positions_forward(Stream& stream, const float* x, float* y, int64_t batch, int64_t sequence,
                       int64_t hidden, int64_t first_position) {
  stream.enqueue([=] {
    const float* table = table_of(first_position, sequence, hidden);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < batch * sequence; ++row) {
      const float* positions = table + row % sequence * hidden;
      const float* in = x + row * hidden;
      float* out = y + row * hidden;
#pragma omp simd
      for (int64_t j = 0; j < hidden; ++j) {
        out[j] = in[j] + positions[j];
      }
    }
  });
}

}  // namespace hidup::kernels
