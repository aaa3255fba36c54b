// Measures the best rates at which a device multiplies and moves bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "comm/communicator.h"
#include "core/dtype.h"
#include "cost/profile.h"
#include "device/device.h"

namespace hidup {

// Returns normal random numbers times `scale`. Products of zeros would take less power and time.
std::vector<float> normal_numbers(int64_t count, float scale);

// Fills device memory with the values, rounded to the dtype and repeated. Blocks until it is done.
void fill(Stream& stream, std::byte* to, int64_t elements, DType dtype,
          const std::vector<float>& values);

// Returns the flop/s of a product of n x n matrices. Throws Error(out_of_memory).
double product_rate(Device& device, Stream& stream, int64_t n, DType dtype);

// Returns the bytes/s, read and written, of the stream's copy or of a sum in place, whichever is
// faster; for the sum, a CPU reads no cache lines only to overwrite them. `bytes`: size of each
// operand. Throws Error(out_of_memory).
double memory_rate(Device& device, Stream& stream, int64_t bytes);

// Collective. Returns this rank's rates while all ranks measure at once, because they may share
// memory and power. Products grow until one takes some milliseconds. `threads`: threads of the
// compute stream. Throws CollectiveError(out_of_memory).
DeviceRates measure_own_rates(Device& device, Communicator& world, int threads,
                              const std::set<DType>& types);

// Collective. Returns the rates of the slowest of these ranks, from measure_own_rates().
DeviceRates slowest_rates(Communicator& world, const DeviceRates& mine,
                          const std::function<bool(int64_t rank)>& counts);

}  // namespace hidup
