// The place of one head of one sequence in the tensors of attention.h, for its kernels.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "kernels/attention.h"

namespace hidup::kernels {

struct AttentionHead {
  int64_t sequence;
  int64_t size;
  int64_t q_stride;  // elements between positions
  int64_t kv_stride;
  int64_t y_stride;
  int64_t q;   // start of the first position in q
  int64_t kv;  // start in k and v
  int64_t y;
  int64_t lse;

  // `index` counts the heads of all sequences.
  HIDUP_HOST_DEVICE AttentionHead(const AttentionSize& of, int64_t of_q, int64_t of_kv,
                                  int64_t index)
      : sequence(of.sequence),
        size(of.head),
        q_stride(of_q),
        kv_stride(of_kv),
        y_stride(of.heads * of.head),
        q(index / of.heads * of.sequence * of_q + index % of.heads * of.head),
        kv(index / of.heads * of.sequence * of_kv +
           index % of.heads / (of.heads / of.kv_heads) * of.head),
        y(index / of.heads * of.sequence * y_stride + index % of.heads * of.head),
        lse(index * of.sequence) {}
};

}  // namespace hidup::kernels
