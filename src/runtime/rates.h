// How fast a device multiplies and moves bytes at best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "comm/communicator.h"
#include "core/dtype.h"
#include "cost/profile.h"
#include "device/device.h"

namespace hidup {

// Normal random numbers times `scale`: products of zeros take less power, and less time.
std::vector<float> normal_numbers(int64_t count, float scale);

// Repeats the values, rounded to the type, over that many elements of the device's memory. Waits.
void fill(Stream& stream, std::byte* to, int64_t elements, DType dtype,
          const std::vector<float>& values);

// flop/s of a product of matrices of n rows and columns. Throws Error(out_of_memory), as the next
// one.
double product_rate(Device& device, Stream& stream, int64_t n, DType dtype);

// bytes/s, read and written, of the faster of two: the stream's copy, and a sum in place, for which
// a CPU reads no lines only to overwrite them. `bytes`: of each operand.
double memory_rate(Device& device, Stream& stream, int64_t bytes);

// Collective. Those of the slowest rank while all ranks measure the same, because they may share
// memory and power. Products are as large as the device needs to be busy for some milliseconds.
// `threads`: of the compute stream. Throws CollectiveError(out_of_memory).
DeviceRates measure_rates(Device& device, Communicator& world, int threads,
                          const std::set<DType>& types);

}  // namespace hidup
