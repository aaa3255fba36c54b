#include "kernels/dispatch.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/cpu_math.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"
#include "kernels/routing.h"

namespace hidup::kernels {
namespace {

// The first rows of every [expert, sequence] of a packed buffer; null for a buffer with slots.
// Valid until the next call on this thread.
const int32_t* starts_of(const DispatchSize& size) {
  if (size.counts == nullptr) {
    return nullptr;
  }
  thread_local std::vector<int32_t> memory;
  const int64_t pairs = size.experts * size.batch;
  int32_t* starts = scratch(memory, pairs + 1);
  starts[0] = 0;
  std::partial_sum(size.counts, size.counts + pairs, starts + 1);
  return starts;
}

// The choices that name the rows of a buffer, as indices of the routing; -1 for none.
struct NamedRows {
  const int32_t* entry;
  int64_t count;
};
// Valid until the next call on this thread.
NamedRows named_rows(const int32_t* routing, const DispatchSize& size, const int32_t* starts) {
  thread_local std::vector<int32_t> memory;
  const int64_t entries = size.sequence * size.choices;
  const int64_t rows = starts != nullptr ? starts[size.experts * size.batch] : rows_of(size);
  int32_t* found = scratch(memory, rows);
  std::fill_n(found, rows, -1);
  for_each(size.batch, [&](int64_t b) {
    for (int64_t i = b * entries; i < (b + 1) * entries; ++i) {
      const int64_t row = row_of(routing[i], b, size, starts);
      if (row >= 0) {
        found[row] = static_cast<int32_t>(i);
      }
    }
  });
  return {found, rows};
}

template <typename Element, typename Result>
void scale_row(const Element* row, float weight, int64_t width, Result* out) {
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) {
    out[j] = weight * row[j];
  }
}

template <typename Element>
void add_row(const Element* row, float weight, int64_t width, float* out) {
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) {
    out[j] += weight * row[j];
  }
}

// y[b, s, :] = the sum over c of weights[b, s, c] (1 without weights) * the row of the entry.
template <typename Element>
void sum_rows(const Element* buffer, const int32_t* routing, const float* weights, Element* y,
              const DispatchSize& size) {
  const int32_t* starts = starts_of(size);
  for_each(size.batch * size.sequence, [&](int64_t t) {
    thread_local std::vector<float> memory;
    float* out = sums_for(y + t * size.width, size.width, memory);
    bool written = false;
    for (int64_t i = t * size.choices; i < (t + 1) * size.choices; ++i) {
      const int64_t at = row_of(routing[i], t / size.sequence, size, starts);
      if (at < 0) {
        continue;
      }
      const Element* row = buffer + at * size.width;
      const float weight = weights != nullptr ? weights[i] : 1.0F;
      if (written) {
        add_row(row, weight, size.width, out);
      } else {
        scale_row(row, weight, size.width, out);
      }
      written = true;
    }
    if (!written) {
      std::fill_n(out, size.width, 0.0F);
    }
    round_to(out, size.width, y + t * size.width);
  });
}

}  // namespace

template <typename Element>
void dispatch_forward(Stream& stream, const Element* x, const int32_t* routing, Element* buffer,
                      DispatchSize size) {
  check_size(size);
  stream.enqueue([=] {
    const NamedRows rows = named_rows(routing, size, starts_of(size));
    for_each(rows.count, [&](int64_t row) {
      Element* out = buffer + row * size.width;
      if (rows.entry[row] < 0) {
        std::fill_n(out, size.width, Element(0.0F));
      } else {
        std::copy_n(x + rows.entry[row] / size.choices * size.width, size.width, out);
      }
    });
  });
}

template <typename Element>
void dispatch_backward(Stream& stream, const Element* dbuffer, const int32_t* routing, Element* dx,
                       DispatchSize size) {
  check_size(size);
  stream.enqueue([=] { sum_rows(dbuffer, routing, nullptr, dx, size); });
}

template <typename Element>
void combine_forward(Stream& stream, const Element* buffer, const int32_t* routing,
                     const float* weights, Element* y, DispatchSize size) {
  check_size(size);
  stream.enqueue([=] { sum_rows(buffer, routing, weights, y, size); });
}

template <typename Element>
void combine_backward(Stream& stream, const CombineBackward<Element>& args) {
  check_size(args.size);
  stream.enqueue([=] {
    const DispatchSize& size = args.size;
    const NamedRows rows = named_rows(args.routing, size, starts_of(size));
    std::fill_n(args.dweights, size.batch * size.sequence * size.choices, 0.0F);
    for_each(rows.count, [&](int64_t row) {
      Element* out = args.dbuffer + row * size.width;
      const int64_t entry = rows.entry[row];
      if (entry < 0) {
        std::fill_n(out, size.width, Element(0.0F));
        return;
      }
      const Element* result = args.buffer + row * size.width;
      const Element* gradient = args.dy + entry / size.choices * size.width;
      args.dweights[entry] = sum_of(size.width, [=](int64_t j) { return result[j] * gradient[j]; });
      scale_row(gradient, args.weights[entry], size.width, out);
    });
  });
}

HIDUP_INSTANTIATE(dispatch_forward);
HIDUP_INSTANTIATE(dispatch_backward);
HIDUP_INSTANTIATE(combine_forward);
HIDUP_INSTANTIATE(combine_backward);

}  // namespace hidup::kernels
