// Where one head of one sequence lies within the tensors of attention.h: for its kernels.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "kernels/attention.h"

namespace hidup::kernels {

struct AttentionHead {
  int64_t sequence;
  int64_t size;
  int64_t width;  // elements from q to k and from k to v; positions are 3*width apart
  int64_t q;      // where the first position's q begins in qkv
  int64_t y;      // where its y begins in y
  int64_t lse;

  HIDUP_HOST_DEVICE AttentionHead(const AttentionSize& of, int64_t index)
      : sequence(of.sequence),
        size(of.head),
        width(of.heads * of.head),
        q(index / of.heads * of.sequence * 3 * width + index % of.heads * of.head),
        y(index / of.heads * of.sequence * width + index % of.heads * of.head),
        lse(index * of.sequence) {}

  HIDUP_HOST_DEVICE int64_t qkv_stride() const { return 3 * width; }
};

}  // namespace hidup::kernels
