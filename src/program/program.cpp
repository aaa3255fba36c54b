#include "program/program.h"

#include <array>

namespace hidup {

std::string_view name_of(Opcode opcode) {
  static constexpr auto kNames = std::to_array<std::string_view>({"embedding",
                                                                  "embedding_backward",
                                                                  "positions",
                                                                  "matmul",
                                                                  "matmul_bias",
                                                                  "matmul_bias_relu",
                                                                  "matmul_bias_gelu",
                                                                  "matmul_backward_input",
                                                                  "matmul_backward_weight",
                                                                  "bias",
                                                                  "bias_backward",
                                                                  "relu",
                                                                  "relu_backward",
                                                                  "gelu",
                                                                  "gelu_backward",
                                                                  "dropout",
                                                                  "add",
                                                                  "layer_norm",
                                                                  "residual_norm",
                                                                  "layer_norm_backward",
                                                                  "attention",
                                                                  "attention_backward",
                                                                  "cross_entropy",
                                                                  "cross_entropy_stats",
                                                                  "cross_entropy_merge",
                                                                  "cross_entropy_backward",
                                                                  "route",
                                                                  "expert_load",
                                                                  "gate",
                                                                  "gate_backward",
                                                                  "expert_counts",
                                                                  "dispatch",
                                                                  "dispatch_backward",
                                                                  "expert_matmul",
                                                                  "expert_matmul_backward_input",
                                                                  "expert_matmul_backward_weight",
                                                                  "expert_bias",
                                                                  "expert_bias_backward",
                                                                  "combine",
                                                                  "combine_backward",
                                                                  "slice",
                                                                  "place",
                                                                  "all_reduce",
                                                                  "all_gather",
                                                                  "reduce_scatter",
                                                                  "all_to_all",
                                                                  "broadcast",
                                                                  "convert",
                                                                  "squared_norm",
                                                                  "clip_scale",
                                                                  "adam"});
  static_assert(kNames.size() == static_cast<size_t>(Opcode::adam) + 1);
  return kNames.at(static_cast<size_t>(opcode));
}

std::string_view name_of(StreamKind stream) {
  return stream == StreamKind::compute ? "compute" : "comm";
}

std::string_view name_of(Phase phase) {
  static constexpr std::array<std::string_view, 3> kNames = {"forward", "backward", "update"};
  return kNames.at(static_cast<size_t>(phase));
}

std::string_view collective_of(Opcode opcode) {
  return opcode >= Opcode::all_reduce && opcode <= Opcode::broadcast ? name_of(opcode) : "";
}

bool is_reshard(Opcode opcode) {
  return opcode >= Opcode::slice && opcode <= Opcode::broadcast;
}

bool adds_to(const Instruction& instruction, size_t output) {
  const bool loss = instruction.opcode == Opcode::cross_entropy ||
                    instruction.opcode == Opcode::cross_entropy_merge;
  const bool norm = instruction.opcode == Opcode::layer_norm_backward;
  return instruction.accumulate && !(loss && output > 0) && !(norm && output == 0);
}

Region Program::region(ValueId id, int64_t rank) const {
  return region_of(value(id).shape, value(id).layout, mesh, rank, value(id).batch);
}

Shape Program::local_shape(ValueId id, int64_t rank) const {
  return shape_of(region(id, rank));
}

int64_t Program::local_bytes(ValueId id, int64_t rank) const {
  if (!value(id).holds.empty()) {
    int64_t bytes = 0;
    for (const ValueId held : value(id).holds) {
      bytes += local_bytes(held, rank);
    }
    return bytes;
  }
  return region(id, rank).elements() * size_of(value(id).dtype);
}

}  // namespace hidup
