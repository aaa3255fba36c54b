// Lower bounds of the time of instructions and steps on a device.
#pragma once

#include <cstdint>
#include <optional>

#include "cost/profile.h"
#include "program/program.h"
#include "program/work.h"

namespace hidup {

struct Floor {
  double seconds = 0.0;
  bool by_flops = false;  // otherwise bytes set the floor
};

// Returns the longer of two times: the work's bytes at the rate of memory, and, for a product, its
// flops at the rate of a large product of its type. The rates must have that type.
Floor floor_of(Opcode opcode, const Work& work, const DeviceRates& rates);

// The floor that a step is compared with, and its rates.
struct StepFloor {
  double seconds = 0.0;
  double product = 0.0;  // flop/s of products of the model's type, used for the floor
  double memory = 0.0;   // bytes/s, used for the floor
};

// Returns the sum of the floors of all that the rank computes and copies in a step, without
// messages. `dtype`: the type of the model's elements. Returns none where the rates lack a type.
std::optional<StepFloor> step_floor(const Program& program, int64_t rank, const DeviceRates& rates,
                                    DType dtype);

}  // namespace hidup
