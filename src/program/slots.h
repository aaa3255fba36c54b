// The waits that keep the stages of a pipeline in step; for the sources of this folder only.
#pragma once

#include <vector>

#include "program/program.h"
#include "sharding/stages.h"

namespace hidup {

// Returns, per instruction, the earlier ones that it waits for besides those that it depends on
// (insert_waits()). They bound the memory of what stages send each other:
// - a message for a slot of a device waits for the end of the slot three before it there, so few
//   values arrive ahead of their use;
// - a slot waits until the messages that precede the slot before it on the device are sent or
//   received, so few values wait to be sent.
// Both come long before they are needed where stages keep the order of the slots in time.
// `axis`: of the pipeline; `device_of_slot`: by Instruction::slot.
std::vector<std::vector<int>> waits_of_slots(const Program& program, const Stages& stages,
                                             size_t axis, const std::vector<int>& device_of_slot);

}  // namespace hidup
