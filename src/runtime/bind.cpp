#include "runtime/bind.h"

#include <type_traits>
#include <vector>

#include "core/check.h"
#include "core/random.h"
#include "core/with_type.h"
#include "graph/flops.h"
#include "kernels/add.h"
#include "kernels/attention.h"
#include "kernels/bias.h"
#include "kernels/convert.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/layer_norm.h"
#include "kernels/matmul.h"
#include "kernels/positions.h"
#include "kernels/relu.h"
#include "kernels/residual_norm.h"
#include "program/dtypes.h"
#include "runtime/operands.h"

namespace hidup {
namespace {

// A tensor as rows of the shape `row`: how many, and how wide.
struct Rows {
  int64_t count = 1;
  int64_t width = 1;
};
Rows rows_of(const Shape& shape, const Shape& row) {
  const int64_t width = elements(row);
  return {width == 0 ? 0 : elements(shape) / width, width};
}

template <typename Element>
Launch bind_embedding(const Operands& at) {
  const Instruction& instruction = at.instruction();
  const bool backward = instruction.opcode == Opcode::embedding_backward;
  const Region table = backward ? at.out_region(0) : at.in_region(1);
  const kernels::EmbeddingSize size{elements(at.in_shape(0)), table.extent[0], table.extent[1],
                                    table.start[0]};
  const float scale = at.attribute("scale");
  const int32_t* tokens = at.in_integers(0);
  const Element* second = at.in_as<Element>(1);
  if (backward) {
    float* out = at.out(0);
    return [=, accumulate = instruction.accumulate](Stream& stream) {
      kernels::embedding_backward<Element>(stream, {.tokens = tokens,
                                                    .dy = second,
                                                    .dtable = out,
                                                    .size = size,
                                                    .scale = scale,
                                                    .accumulate = accumulate});
    };
  }
  Element* out = at.out_as<Element>(0);
  return
      [=](Stream& stream) { kernels::embedding_forward(stream, tokens, second, out, size, scale); };
}

template <typename Element>
Launch bind_matmul(const Operands& at) {
  const Instruction& instruction = at.instruction();
  const Element* a = at.in_as<Element>(0);
  const Element* b = at.in_as<Element>(1);
  Element* c = at.out_as<Element>(0);
  const bool accumulate = instruction.accumulate;
  const bool transposed = at.attribute("transposed") != 0.0F;  // the weight is [n, k]
  if (instruction.opcode == Opcode::matmul) {
    const MatmulExtents e = matmul_extents(at.in_shape(0), at.in_shape(1), instruction.attributes);
    return [=](Stream& stream) {
      kernels::matmul(stream, a, b, c, {.m = e.m, .n = e.n, .k = e.k, .transpose_b = transposed},
                      accumulate);
    };
  }
  if (instruction.opcode == Opcode::matmul_backward_input) {  // dx[m, k] = dy[m, n] w[k, n]^T
    const MatmulExtents e = matmul_extents(at.out_shape(0), at.in_shape(1), instruction.attributes);
    return [=](Stream& stream) {
      kernels::matmul(stream, a, b, c, {.m = e.m, .n = e.k, .k = e.n, .transpose_b = !transposed},
                      accumulate);
    };
  }
  float* dw = at.out(0);
  const MatmulExtents e = matmul_extents(at.in_shape(0), at.out_shape(0), instruction.attributes);
  if (transposed) {  // dw[n, k] = dy[m, n]^T x[m, k]
    return [=](Stream& stream) {
      kernels::matmul(stream, b, a, dw, {.m = e.n, .n = e.k, .k = e.m, .transpose_a = true},
                      accumulate);
    };
  }
  // dw[k, n] = x[m, k]^T dy[m, n]
  return [=](Stream& stream) {
    kernels::matmul(stream, a, b, dw, {.m = e.k, .n = e.n, .k = e.m, .transpose_a = true},
                    accumulate);
  };
}

template <typename Element>
Launch bind_matmul_bias(const Operands& at) {
  const Opcode opcode = at.instruction().opcode;
  const MatmulExtents e =
      matmul_extents(at.in_shape(0), at.in_shape(1), at.instruction().attributes);
  const bool transposed = at.attribute("transposed") != 0.0F;
  kernels::Epilogue<Element> epilogue{.bias = at.in_as<Element>(2)};
  if (opcode == Opcode::matmul_bias_relu) {
    epilogue.activation = kernels::Activation::relu;
  } else if (opcode == Opcode::matmul_bias_gelu) {
    epilogue.activation = kernels::Activation::gelu;
    epilogue.input = at.out_as<Element>(1);
  }
  return [=, x = at.in_as<Element>(0), weight = at.in_as<Element>(1),
          y = at.out_as<Element>(0)](Stream& stream) {
    kernels::matmul_bias(stream, x, weight, y,
                         {.m = e.m, .n = e.n, .k = e.k, .transpose_b = transposed}, epilogue);
  };
}

template <typename Element>
Launch bind_bias(const Operands& at) {
  const bool backward = at.instruction().opcode == Opcode::bias_backward;
  const Rows r = rows_of(at.in_shape(0), backward ? at.out_shape(0) : at.in_shape(1));
  const Element* x = at.in_as<Element>(0);
  if (backward) {
    return [=, db = at.out(0), accumulate = at.instruction().accumulate](Stream& stream) {
      kernels::bias_backward(stream, x, db, r.count, r.width, accumulate);
    };
  }
  const Element* b = at.in_as<Element>(1);
  Element* out = at.out_as<Element>(0);
  return [=](Stream& stream) { kernels::bias_forward(stream, x, b, out, r.count, r.width); };
}

template <typename Element>
Launch bind_layer_norm(const Operands& at) {
  const Element* x = at.in_as<Element>(0);
  const Element* weight = at.in_as<Element>(1);
  const Rows r = rows_of(at.in_shape(0), at.in_shape(1));
  if (at.instruction().opcode == Opcode::layer_norm) {
    const Element* bias = at.in_as<Element>(2);
    const float epsilon = at.attribute("epsilon");
    Element* y = at.out_as<Element>(0);
    float* mean = at.out(1);
    float* rstd = at.out(2);
    return [=](Stream& stream) {
      kernels::layer_norm_forward<Element>(stream, {.x = x,
                                                    .gamma = weight,
                                                    .beta = bias,
                                                    .y = y,
                                                    .mean = mean,
                                                    .rstd = rstd,
                                                    .rows = r.count,
                                                    .n = r.width,
                                                    .eps = epsilon});
    };
  }
  const float* mean = at.in(2);
  const float* rstd = at.in(3);
  const Element* dy = at.in_as<Element>(4);
  Element* dx = at.out_as<Element>(0);
  float* dweight = at.out(1);
  float* dbias = at.out(2);
  return [=, accumulate = at.instruction().accumulate](Stream& stream) {
    kernels::layer_norm_backward<Element>(stream, {.x = x,
                                                   .gamma = weight,
                                                   .mean = mean,
                                                   .rstd = rstd,
                                                   .dy = dy,
                                                   .dx = dx,
                                                   .dgamma = dweight,
                                                   .dbeta = dbias,
                                                   .rows = r.count,
                                                   .n = r.width,
                                                   .accumulate = accumulate});
  };
}

template <typename Element>
Launch bind_residual_norm(const Operands& at) {
  const Rows r = rows_of(at.in_shape(0), at.in_shape(2));
  const kernels::DropoutMask dropout{
      .region = at.in_region(0),
      .p = at.attribute("p"),
      .key = random_stream(at.binding().seed, at.instruction().purpose).key,
      .state = at.binding().state};
  return [=, branch = at.in_as<Element>(0), residual = at.in_as<Element>(1),
          weight = at.in_as<Element>(2), bias = at.in_as<Element>(3), y = at.out_as<Element>(0),
          sum = at.out_as<Element>(1), mean = at.out(2), rstd = at.out(3),
          epsilon = at.attribute("epsilon")](Stream& stream) {
    kernels::residual_norm<Element>(stream, {.branch = branch,
                                             .residual = residual,
                                             .dropout = dropout,
                                             .gamma = weight,
                                             .beta = bias,
                                             .sum = sum,
                                             .y = y,
                                             .mean = mean,
                                             .rstd = rstd,
                                             .rows = r.count,
                                             .n = r.width,
                                             .eps = epsilon});
  };
}

template <typename Element>
Launch bind_attention(const Operands& at) {
  const Shape qkv_shape = at.in_shape(0);
  const kernels::AttentionSize size{qkv_shape[0], qkv_shape[1], qkv_shape[3], qkv_shape[4]};
  const bool causal = at.attribute("causal") != 0.0F;
  const Element* qkv = at.in_as<Element>(0);
  if (at.instruction().opcode == Opcode::attention) {
    Element* y = at.out_as<Element>(0);
    float* lse = at.out(1);
    return [=](Stream& stream) { kernels::attention_forward(stream, qkv, y, lse, size, causal); };
  }
  const Element* y = at.in_as<Element>(1);
  const float* lse = at.in(2);
  const Element* dy = at.in_as<Element>(3);
  Element* dqkv = at.out_as<Element>(0);
  return [=](Stream& stream) {
    kernels::attention_backward<Element>(
        stream,
        {.qkv = qkv, .y = y, .lse = lse, .dy = dy, .dqkv = dqkv, .size = size, .causal = causal});
  };
}

Launch bind_cross_entropy_merge(const Operands& at) {
  const Shape stats_shape = at.in_shape(0);
  const int64_t parts = stats_shape[0];
  const int64_t rows = elements(at.out_shape(1));
  const float scale = at.attribute("scale");
  return [=, stats = at.in(0), loss = at.out(0), lse = at.out(1),
          accumulate = at.instruction().accumulate](Stream& stream) {
    kernels::cross_entropy_merge(stream, {.stats = stats,
                                          .lse = lse,
                                          .loss = loss,
                                          .parts = parts,
                                          .rows = rows,
                                          .scale = scale,
                                          .accumulate = accumulate});
  };
}

template <typename Element>
Launch bind_cross_entropy(const Operands& at) {
  const Element* logits = at.in_as<Element>(0);
  const int32_t* targets = at.in_integers(1);
  const int64_t rows = elements(at.in_shape(1));
  const Region region = at.in_region(0);
  const int64_t columns = region.extent[region.dims - 1];
  const int64_t first = region.start[region.dims - 1];
  if (at.instruction().opcode == Opcode::cross_entropy_stats) {
    return [=, stats = at.out(0)](Stream& stream) {
      kernels::cross_entropy_stats<Element>(stream, {.logits = logits,
                                                     .targets = targets,
                                                     .stats = stats,
                                                     .rows = rows,
                                                     .columns = columns,
                                                     .first = first});
    };
  }
  const float scale = at.attribute("scale");
  if (at.instruction().opcode == Opcode::cross_entropy) {
    return [=, loss = at.out(0), lse = at.out(1),
            accumulate = at.instruction().accumulate](Stream& stream) {
      kernels::cross_entropy_forward<Element>(stream, {.logits = logits,
                                                       .targets = targets,
                                                       .lse = lse,
                                                       .loss = loss,
                                                       .rows = rows,
                                                       .vocab = columns,
                                                       .scale = scale,
                                                       .accumulate = accumulate});
    };
  }
  return [=, lse = at.in(2), dlogits = at.out_as<Element>(0),
          state = at.binding().state](Stream& stream) {
    kernels::cross_entropy_backward<Element>(stream, {.logits = logits,
                                                      .targets = targets,
                                                      .lse = lse,
                                                      .dlogits = dlogits,
                                                      .rows = rows,
                                                      .columns = columns,
                                                      .first = first,
                                                      .scale = scale,
                                                      .state = state});
  };
}

template <typename Element>
Launch bind_elementwise(const Operands& at) {
  const Element* x = at.in_as<Element>(0);
  Element* y = at.out_as<Element>(0);
  const int64_t n = elements(at.in_shape(0));
  switch (at.instruction().opcode) {
    case Opcode::positions: {
      const Region region = at.in_region(0);
      return [=](Stream& stream) { kernels::positions_forward(stream, x, y, region); };
    }
    case Opcode::relu:
      return [=](Stream& stream) { kernels::relu_forward(stream, x, y, n); };
    case Opcode::relu_backward:
      return [=, dy = at.in_as<Element>(1)](Stream& stream) {
        kernels::relu_backward(stream, x, dy, y, n);
      };
    case Opcode::gelu:
      return [=](Stream& stream) { kernels::gelu_forward(stream, x, y, n); };
    case Opcode::gelu_backward:
      return [=, dy = at.in_as<Element>(1)](Stream& stream) {
        kernels::gelu_backward(stream, x, dy, y, n);
      };
    case Opcode::add:
      return [=, b = at.in_as<Element>(1)](Stream& stream) {
        kernels::add_forward(stream, x, b, y, n);
      };
    default: {
      const kernels::DropoutMask mask{
          .region = at.in_region(0),
          .p = at.attribute("p"),
          .key = random_stream(at.binding().seed, at.instruction().purpose).key,
          .state = at.binding().state};
      return [=](Stream& stream) { kernels::dropout(stream, x, y, mask); };
    }
  }
}

// From masters to parameters, or from gradients of parameters that other operations read as well.
template <typename From, typename To>
Launch bind_convert(const Operands& at) {
  struct Part {
    const From* from;
    To* to;
    int64_t n;
  };
  std::vector<Part> parts;
  for (size_t p = 0; p < at.instruction().inputs.size(); ++p) {
    parts.push_back({at.in_as<From>(p), at.out_as<To>(p), elements(at.in_shape(p))});
  }
  return [parts](Stream& stream) {
    for (const Part& part : parts) {
      kernels::convert(stream, part.from, part.to, part.n);
    }
  };
}

}  // namespace

Span span_of(const Operands& at, const std::vector<ValueId>& values) {
  const Binding& binding = at.binding();
  const auto first = static_cast<size_t>(values.front());
  const auto last = static_cast<size_t>(values.back());
  const int64_t start = binding.plan.offsets[first];
  const int64_t end = binding.plan.offsets[last] + binding.plan.sizes[last];
  return {binding.arena + start,
          (end - start) / size_of(binding.program.value(values.front()).dtype)};
}

namespace {

template <typename Element>
Launch bind_elements(const Operands& at) {
  switch (at.instruction().opcode) {
    case Opcode::embedding:
    case Opcode::embedding_backward:
      return bind_embedding<Element>(at);
    case Opcode::matmul:
    case Opcode::matmul_backward_input:
    case Opcode::matmul_backward_weight:
      return bind_matmul<Element>(at);
    case Opcode::matmul_bias:
    case Opcode::matmul_bias_relu:
    case Opcode::matmul_bias_gelu:
      return bind_matmul_bias<Element>(at);
    case Opcode::bias:
    case Opcode::bias_backward:
      return bind_bias<Element>(at);
    case Opcode::positions:
    case Opcode::relu:
    case Opcode::relu_backward:
    case Opcode::gelu:
    case Opcode::gelu_backward:
    case Opcode::dropout:
    case Opcode::add:
      return bind_elementwise<Element>(at);
    case Opcode::layer_norm:
    case Opcode::layer_norm_backward:
      return bind_layer_norm<Element>(at);
    case Opcode::residual_norm:
      return bind_residual_norm<Element>(at);
    case Opcode::attention:
    case Opcode::attention_backward:
      return bind_attention<Element>(at);
    case Opcode::cross_entropy:
    case Opcode::cross_entropy_stats:
    case Opcode::cross_entropy_backward:
      return bind_cross_entropy<Element>(at);
    case Opcode::cross_entropy_merge:
      return bind_cross_entropy_merge(at);
    case Opcode::route:
    case Opcode::expert_load:
    case Opcode::gate:
    case Opcode::gate_backward:
    case Opcode::expert_counts:
    case Opcode::dispatch:
    case Opcode::dispatch_backward:
    case Opcode::expert_matmul:
    case Opcode::expert_matmul_backward_input:
    case Opcode::expert_matmul_backward_weight:
    case Opcode::expert_bias:
    case Opcode::expert_bias_backward:
    case Opcode::combine:
    case Opcode::combine_backward:
      return bind_experts<Element>(at);
    case Opcode::slice:
    case Opcode::place:
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::broadcast:
      return bind_reshard(at);
    case Opcode::convert:
      if constexpr (!std::is_same_v<Element, float>) {
        if (at.binding().program.value(at.instruction().inputs[0]).dtype == DType::f32) {
          return bind_convert<float, Element>(at);
        }
        return bind_convert<Element, float>(at);
      }
      break;
    case Opcode::squared_norm:
    case Opcode::clip_scale:
    case Opcode::adam:
      return bind_update(at);
  }
  fail(ExitCode::internal, "an instruction of unknown kind");
}

}  // namespace

std::function<void(Stream&)> bind(const Instruction& instruction, const Binding& binding) {
  const Operands at(instruction, binding);
  return with_floating_type(element_dtype(binding.program, instruction),
                            [&](auto zero) { return bind_elements<decltype(zero)>(at); });
}

}  // namespace hidup
