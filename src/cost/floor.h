// The least time that instructions, and the steps of a program, could take on a device.
#pragma once

#include <cstdint>
#include <optional>

#include "cost/profile.h"
#include "program/program.h"
#include "program/work.h"

namespace hidup {

struct Floor {
  double seconds = 0.0;
  bool by_flops = false;  // otherwise by bytes
};

// The longer of the work's bytes at the rate of memory and, of a product, its flops at the rate of
// a large product of its type, which the rates have.
Floor floor_of(Opcode opcode, const Work& work, const DeviceRates& rates);

// What a step is compared with.
struct StepFloor {
  double seconds = 0.0;
  double product = 0.0;  // flop/s that it rests on, of products of the model's type
  double memory = 0.0;   // likewise, bytes/s
};

// The sum over what the rank computes and copies in a step, one after the other; messages are not
// counted. `dtype`: of the model's elements. None where the rates lack a type.
std::optional<StepFloor> step_floor(const Program& program, int64_t rank, const DeviceRates& rates,
                                    DType dtype);

}  // namespace hidup
