#include "kernels/copy_strided.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu_math.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

constexpr int64_t kPiece = 16384;       // elements that one thread copies at a time, roughly
constexpr int64_t kLarge = 4 * kPiece;  // elements that are worth a team's start

// Copies a run along the innermost dimension, from its element `begin` to `end`.
template <int64_t kElement>
void copy_run(const StridedCopy& copy, const char* from, char* to, int64_t begin, int64_t end) {
  constexpr int64_t kShort = 16;  // elements that are faster to copy without a call
  const int64_t from_stride = copy.from_stride[copy.dims - 1];
  const int64_t to_stride = copy.to_stride[copy.dims - 1];
  if (from_stride == 1 && to_stride == 1 && end - begin > kShort) {
    std::memcpy(to + begin * kElement, from + begin * kElement,
                static_cast<size_t>((end - begin) * kElement));
    return;
  }
  for (int64_t i = begin; i < end; ++i) {
    std::memcpy(to + i * to_stride * kElement, from + i * from_stride * kElement, kElement);
  }
}

// Copies elements begin .. end-1 of the runs first .. last-1, row-major over the outer dimensions.
template <int64_t kElement>
void copy_runs(const StridedCopy& copy, const char* from, char* to, int64_t first, int64_t last,
               int64_t begin, int64_t end) {
  int64_t index[kMaxDims] = {};
  int64_t from_at = copy.from_offset;
  int64_t to_at = copy.to_offset;
  for (int64_t d = copy.dims - 2, rest = first; d >= 0; --d) {
    index[d] = rest % copy.extent[d];
    rest /= copy.extent[d];
    from_at += index[d] * copy.from_stride[d];
    to_at += index[d] * copy.to_stride[d];
  }
  for (int64_t run = first; run < last; ++run) {
    copy_run<kElement>(copy, from + from_at * kElement, to + to_at * kElement, begin, end);
    for (int d = copy.dims - 2; d >= 0; --d) {
      from_at += copy.from_stride[d];
      to_at += copy.to_stride[d];
      if (++index[d] < copy.extent[d]) {
        break;
      }
      index[d] = 0;
      from_at -= copy.extent[d] * copy.from_stride[d];
      to_at -= copy.extent[d] * copy.to_stride[d];
    }
  }
}

int64_t elements_of(const StridedCopy& copy) {
  int64_t elements = 1;
  for (int d = 0; d < copy.dims; ++d) {
    elements *= copy.extent[d];
  }
  return elements;
}

}  // namespace

void copy_strided(Stream& stream, const void* from, void* to, const StridedCopy& copy) {
  check_copy(copy, from, to);
  stream.enqueue([=, source = static_cast<const char*>(from), target = static_cast<char*>(to)] {
    const int64_t elements = elements_of(copy);
    if (elements == 0) {
      return;
    }
    const StridedCopy simple = merged(copy);
    const int64_t run = simple.extent[simple.dims - 1];
    const int64_t runs = elements / run;
    // Cuts long runs into pieces, and copies several short runs at a time.
    const int64_t pieces = ceil_div(run, kPiece);
    const int64_t group = std::max<int64_t>(1, kPiece / run);
#pragma omp parallel for schedule(static) if (elements >= kLarge)
    for (int64_t task = 0; task < ceil_div(runs, group) * pieces; ++task) {
      const int64_t first = task / pieces * group;
      const int64_t begin = task % pieces * kPiece;
      const auto copy_piece = simple.element == 2 ? copy_runs<2> : copy_runs<4>;
      copy_piece(simple, source, target, first, std::min(runs, first + group), begin,
                 std::min(run, begin + kPiece));
    }
  });
}

void fill_zero(Stream& stream, void* to, int64_t bytes) {
  check_extents("fill_zero", {bytes});
  stream.enqueue([target = static_cast<char*>(to), bytes] {
    constexpr int64_t kBytes = 4 * kPiece;
#pragma omp parallel for schedule(static) if (bytes >= 4 * kLarge)
    for (int64_t first = 0; first < bytes; first += kBytes) {
      std::memset(target + first, 0, static_cast<size_t>(std::min(kBytes, bytes - first)));
    }
  });
}

}  // namespace hidup::kernels
