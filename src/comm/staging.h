// Messages between device memory and MPI, which accesses only host memory. For Communicators.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/counts.h"
#include "device/device.h"

namespace hidup {

// Runs exchange(send, receive) in stream order. It reads the data of `send` and writes the data for
// `receive` on the host: in place where the host can access device memory, otherwise in the
// stream's staging memory. Counts are in elements.
template <typename Exchange>
void pass_through_host(Stream& stream, const void* send, int64_t send_count, void* receive,
                       int64_t receive_count, DType dtype, Exchange exchange) {
  std::byte* const copies = stream.staging((send_count + receive_count) * size_of(dtype));
  if (copies == nullptr) {
    stream.enqueue([=] { exchange(send, receive); });
    return;
  }
  std::byte* const received = copies + send_count * size_of(dtype);
  copy_elements(stream, copies, send, send_count, dtype);
  stream.enqueue([=] { exchange(copies, received); });
  copy_elements(stream, receive, received, receive_count, dtype);
}

// Does the same for data that is changed in place: exchange(data). `sends`, `receives`: false where
// the rank only receives or only sends.
template <typename Exchange>
void pass_in_place(Stream& stream, void* data, int64_t count, DType dtype, bool sends,
                   bool receives, Exchange exchange) {
  std::byte* const copy = stream.staging(count * size_of(dtype));
  if (copy == nullptr) {
    stream.enqueue([=] { exchange(data); });
    return;
  }
  copy_elements(stream, copy, data, sends ? count : 0, dtype);
  stream.enqueue([=] { exchange(copy); });
  copy_elements(stream, data, copy, receives ? count : 0, dtype);
}

}  // namespace hidup
