// Launches of products, norms, elementwise operations and the loss.
#include "graph/flops.h"
#include "kernels/activations.h"
#include "kernels/add.h"
#include "kernels/bias.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/layer_norm.h"
#include "kernels/matmul.h"
#include "kernels/residual_norm.h"
#include "kernels/swiglu.h"
#include "runtime/operands.h"
#include "runtime/packed_rows.h"

namespace hidup {
namespace {

// A tensor as `count` rows of `width` elements.
struct Rows {
  int64_t count = 1;
  int64_t width = 1;
};
Rows rows_of(const Shape& shape, const Shape& row) {
  const int64_t width = elements(row);
  return {width == 0 ? 0 : elements(shape) / width, width};
}

// Returns the extents for x and weight, whose shapes may come from other operands (gradients).
MatmulExtents extents(const Operands& at, const Shape& x, const Shape& weight) {
  return matmul_extents(x, weight, at.attributes<MatmulAttributes>());
}
// Returns true if the weight is [n, k].
bool transposed(const Operands& at) {
  return at.attributes<MatmulAttributes>().transposed;
}

// y[m, n] = x[m, k] w[k, n]
kernels::MatmulShape forward_size(const Operands& at) {
  const MatmulExtents e = extents(at, at.in_shape(0), at.in_shape(1));
  return {
      .m = e.m, .n = e.n, .k = e.k, .transpose_b = transposed(at), .c_stride = at.out_stride(0)};
}

template <typename Element, typename Result = Element>
Launch matmul(const Operands& at) {
  return [x = at.in_as<Element>(0), weight = at.in_as<Element>(1), y = at.out_as<Result>(0),
          size = forward_size(at)](Stream& stream) {
    kernels::matmul(stream, x, weight, y, size, false);
  };
}

// dx[m, k] = dy[m, n] w[k, n]^T
kernels::MatmulShape backward_input_size(const Operands& at) {
  const MatmulExtents e = extents(at, at.out_shape(0), at.in_shape(1));
  return {
      .m = e.m, .n = e.k, .k = e.n, .transpose_b = !transposed(at), .a_stride = at.in_stride(0)};
}

template <typename Element>
Launch matmul_backward_input(const Operands& at) {
  return [dy = at.in_as<Element>(0), weight = at.in_as<Element>(1), dx = at.out_as<Element>(0),
          size = backward_input_size(at), accumulate = at.accumulate()](Stream& stream) {
    kernels::matmul(stream, dy, weight, dx, size, accumulate);
  };
}

template <typename Element>
Launch matmul_backward_input_gelu(const Operands& at) {
  return [dy = at.in_as<Element>(0), weight = at.in_as<Element>(1), x = at.in_as<Element>(2),
          dx = at.out_as<Element>(0), size = backward_input_size(at)](Stream& stream) {
    kernels::matmul_gelu_backward(stream, dy, weight, x, dx, size);
  };
}

// dw[k, n] = x[m, k]^T dy[m, n], or dw[n, k] = dy[m, n]^T x[m, k]
template <typename Element>
struct WeightGradient {
  explicit WeightGradient(const Operands& at)
      : swapped(transposed(at)),
        a(at.in_as<Element>(swapped ? 1 : 0)),
        b(at.in_as<Element>(swapped ? 0 : 1)),
        dw(at.out(0)),
        accumulate(at.accumulate()) {
    const MatmulExtents e = extents(at, at.in_shape(0), at.out_shape(0));
    size = {.m = swapped ? e.n : e.k,
            .n = swapped ? e.k : e.n,
            .k = e.m,
            .transpose_a = true,
            .a_stride = at.in_stride(swapped ? 1 : 0),
            .b_stride = at.in_stride(swapped ? 0 : 1)};
  }

  bool swapped;
  const Element* a;
  const Element* b;
  float* dw;
  bool accumulate;
  kernels::MatmulShape size = {};
};

template <typename Element>
Launch matmul_backward_weight(const Operands& at) {
  return [g = WeightGradient<Element>(at)](Stream& stream) {
    kernels::matmul(stream, g.a, g.b, g.dw, g.size, g.accumulate);
  };
}

template <typename Element>
Launch matmul_backward_weight_bias(const Operands& at) {
  return [g = WeightGradient<Element>(at), db = at.out(1)](Stream& stream) {
    const kernels::Factor dy = g.swapped ? kernels::Factor::a : kernels::Factor::b;
    kernels::matmul_sums(stream, g.a, g.b, g.dw, g.size, dy, db, g.accumulate);
  };
}

template <typename Element>
Launch biased_product(const Operands& at, const kernels::Epilogue<Element>& epilogue) {
  return [x = at.in_as<Element>(0), weight = at.in_as<Element>(1), y = at.out_as<Element>(0),
          size = forward_size(at),
          epilogue](Stream& stream) { kernels::matmul_bias(stream, x, weight, y, size, epilogue); };
}

template <typename Element>
Launch matmul_bias(const Operands& at) {
  return biased_product<Element>(at, {.bias = at.in_as<Element>(2)});
}
template <typename Element>
Launch matmul_bias_relu(const Operands& at) {
  return biased_product<Element>(
      at, {.bias = at.in_as<Element>(2), .activation = kernels::Activation::relu});
}
template <typename Element>
Launch matmul_bias_gelu(const Operands& at) {
  return biased_product<Element>(at, {.bias = at.in_as<Element>(2),
                                      .activation = kernels::Activation::gelu,
                                      .input = at.out_as<Element>(1)});
}

template <typename Element>
Launch bias(const Operands& at) {
  return
      [x = at.in_as<Element>(0), b = at.in_as<Element>(1), y = at.out_as<Element>(0),
       rows = rows_of(at.in_shape(0), at.in_shape(1)), stride = at.in_stride(0)](Stream& stream) {
        kernels::bias_forward(stream, x, b, y, rows.count, rows.width, stride);
      };
}

template <typename Element>
Launch bias_backward(const Operands& at) {
  return
      [dy = at.in_as<Element>(0), db = at.out(0), rows = rows_of(at.in_shape(0), at.out_shape(0)),
       accumulate = at.accumulate(), stride = at.in_stride(0)](Stream& stream) {
        kernels::bias_backward(stream, dy, db, rows.count, rows.width, accumulate, stride);
      };
}

// Norms with bias and mean, and RMS norms, which have neither.
template <typename Element>
Launch layer_norm(const Operands& at) {
  const Rows rows = rows_of(at.in_shape(0), at.in_shape(1));
  const kernels::LayerNormForward<Element> args{
      .x = at.in_named<Element>("x"),
      .gamma = at.in_named<Element>("weight"),
      .beta = at.in_named<Element>("bias"),
      .y = at.out_named<Element>("y"),
      .mean = at.out_named<float>("mean"),
      .rstd = at.out_named<float>("rstd"),
      .rows = rows.count,
      .n = rows.width,
      .eps = static_cast<float>(at.attributes<LayerNormAttributes>().epsilon)};
  return [args](Stream& stream) { kernels::layer_norm_forward(stream, args); };
}

template <typename Element>
Launch layer_norm_backward(const Operands& at) {
  const Rows rows = rows_of(at.in_shape(0), at.in_shape(1));
  const kernels::LayerNormBackward<Element> args{.x = at.in_named<Element>("x"),
                                                 .gamma = at.in_named<Element>("weight"),
                                                 .mean = at.in_named<float>("mean"),
                                                 .rstd = at.in_named<float>("rstd"),
                                                 .dy = at.in_named<Element>("dy"),
                                                 .added = at.in_named<Element>("added"),
                                                 .dx = at.out_named<Element>("dx"),
                                                 .dgamma = at.out_named<float>("dweight"),
                                                 .dbeta = at.out_named<float>("dbias"),
                                                 .rows = rows.count,
                                                 .n = rows.width,
                                                 .accumulate = at.accumulate()};
  return [args](Stream& stream) { kernels::layer_norm_backward(stream, args); };
}

kernels::DropoutMask mask_of(const Operands& at, double p) {
  return {.region = at.in_region(0),
          .p = static_cast<float>(p),
          .key = at.random_key(),
          .state = at.binding().state};
}

template <typename Element>
Launch residual_norm(const Operands& at) {
  const auto& attributes = at.attributes<ResidualNormAttributes>();
  const Rows rows = rows_of(at.in_shape(0), at.in_shape(2));
  const kernels::ResidualNorm<Element> args{.branch = at.in_named<Element>("branch"),
                                            .residual = at.in_named<Element>("residual"),
                                            .dropout = mask_of(at, attributes.p),
                                            .gamma = at.in_named<Element>("weight"),
                                            .beta = at.in_named<Element>("bias"),
                                            .sum = at.out_named<Element>("sum"),
                                            .y = at.out_named<Element>("y"),
                                            .mean = at.out_named<float>("mean"),
                                            .rstd = at.out_named<float>("rstd"),
                                            .rows = rows.count,
                                            .n = rows.width,
                                            .eps = static_cast<float>(attributes.epsilon)};
  return [args](Stream& stream) { kernels::residual_norm(stream, args); };
}

float loss_scale(const Operands& at) {
  return static_cast<float>(at.attributes<LossAttributes>().scale);
}
// Return the rows of logits with this rank's classes as their width, and its first class.
Rows rows_of_logits(const Operands& at) {
  const Region logits = at.in_region(0);
  return {elements(at.in_shape(1)), logits.extent[logits.dims - 1]};
}
int64_t first_class(const Operands& at) {
  const Region logits = at.in_region(0);
  return logits.start[logits.dims - 1];
}

template <typename Element>
Launch cross_entropy(const Operands& at) {
  const Rows rows = rows_of_logits(at);
  const kernels::CrossEntropyForward<Element> args{.logits = at.in_as<Element>(0),
                                                   .targets = at.in_integers(1),
                                                   .lse = at.out(1),
                                                   .loss = at.out(0),
                                                   .rows = rows.count,
                                                   .vocab = rows.width,
                                                   .scale = loss_scale(at),
                                                   .accumulate = at.accumulate(),
                                                   .stride = at.in_stride(0)};
  return [args](Stream& stream) { kernels::cross_entropy_forward(stream, args); };
}

template <typename Element>
Launch cross_entropy_stats(const Operands& at) {
  const Rows rows = rows_of_logits(at);
  const kernels::CrossEntropyStats<Element> args{.logits = at.in_as<Element>(0),
                                                 .targets = at.in_integers(1),
                                                 .stats = at.out(0),
                                                 .rows = rows.count,
                                                 .columns = rows.width,
                                                 .first = first_class(at),
                                                 .stride = at.in_stride(0)};
  return [args](Stream& stream) { kernels::cross_entropy_stats(stream, args); };
}

Launch cross_entropy_merge(const Operands& at) {
  const kernels::CrossEntropyMerge args{.stats = at.in(0),
                                        .targets = at.in_integers(1),
                                        .lse = at.out(1),
                                        .loss = at.out(0),
                                        .parts = at.in_shape(0)[0],
                                        .rows = elements(at.out_shape(1)),
                                        .scale = loss_scale(at),
                                        .accumulate = at.accumulate()};
  return [args](Stream& stream) { kernels::cross_entropy_merge(stream, args); };
}

template <typename Element>
Launch cross_entropy_backward(const Operands& at) {
  const Rows rows = rows_of_logits(at);
  const kernels::CrossEntropyBackward<Element> args{.logits = at.in_as<Element>(0),
                                                    .targets = at.in_integers(1),
                                                    .lse = at.in(2),
                                                    .dlogits = at.out_as<Element>(0),
                                                    .rows = rows.count,
                                                    .columns = rows.width,
                                                    .first = first_class(at),
                                                    .scale = loss_scale(at),
                                                    .state = at.binding().state,
                                                    .stride = at.in_stride(0)};
  return [args](Stream& stream) { kernels::cross_entropy_backward(stream, args); };
}

template <typename Element>
Launch swiglu_backward(const Operands& at) {
  const kernels::SwigluBackward<Element> args{.gate = at.in_as<Element>(0),
                                              .up = at.in_as<Element>(1),
                                              .dy = at.in_as<Element>(2),
                                              .dgate = at.out_as<Element>(0),
                                              .dup = at.out_as<Element>(1),
                                              .n = elements(at.in_shape(0))};
  return [args](Stream& stream) { kernels::swiglu_backward(stream, args); };
}

// The mask of a row depends on its expert, sequence and number there, so that it is the same on any
// ranks.
template <typename Element>
Launch dropout_of_packed_rows(const Operands& at) {
  const Value& value = at.binding().program.value(at.instruction().inputs[0]);
  const Region box = at.region(at.instruction().inputs[0], at.binding().rank);
  const RowCounts counts(value, at.binding().counts);
  kernels::DropoutMask mask = mask_of(at, at.attributes<DropoutAttributes>().p);
  std::vector<kernels::DropoutMask> masks;
  for (int64_t i = 0; i < box.extent[0] * box.extent[1]; ++i) {
    Region rows = box;
    rows.start[0] += i / box.extent[1];
    rows.start[1] += i % box.extent[1];
    rows.extent[0] = rows.extent[1] = 1;
    rows.start[2] = value.packed->first;
    rows.global[2] = value.packed->tokens;
    rows.extent[2] = counts.rows(rows);
    if (rows.elements() > 0) {
      mask.region = rows;
      masks.push_back(mask);
    }
  }
  return [x = at.in_as<Element>(0), y = at.out_as<Element>(0), masks](Stream& stream) {
    int64_t first = 0;
    for (const kernels::DropoutMask& each : masks) {
      kernels::dropout(stream, x + first, y + first, each);
      first += each.region.elements();
    }
  };
}

template <typename Element>
Launch dropout(const Operands& at) {
  if (at.binding().program.value(at.instruction().inputs[0]).packed) {
    return dropout_of_packed_rows<Element>(at);
  }
  return [x = at.in_as<Element>(0), y = at.out_as<Element>(0),
          mask = mask_of(at, at.attributes<DropoutAttributes>().p)](Stream& stream) {
    kernels::dropout(stream, x, y, mask);
  };
}

// Elementwise kernels: y = kernel(x), and y = kernel(a, b).
template <typename Element, void (*kKernel)(Stream&, const Element*, Element*, int64_t)>
Launch unary(const Operands& at) {
  return [x = at.in_as<Element>(0), y = at.out_as<Element>(0),
          n = elements(at.in_shape(0))](Stream& stream) { kKernel(stream, x, y, n); };
}
template <typename Element,
          void (*kKernel)(Stream&, const Element*, const Element*, Element*, int64_t)>
Launch binary(const Operands& at) {
  return [a = at.in_as<Element>(0), b = at.in_as<Element>(1), y = at.out_as<Element>(0),
          n = elements(at.in_shape(0))](Stream& stream) { kKernel(stream, a, b, y, n); };
}

}  // namespace

template <typename T>
std::vector<LaunchRow> dense_launches() {
  return {
      {Opcode::matmul, matmul<T>},
      {Opcode::wide_matmul, matmul<T, float>},
      {Opcode::matmul_bias, matmul_bias<T>},
      {Opcode::matmul_bias_relu, matmul_bias_relu<T>},
      {Opcode::matmul_bias_gelu, matmul_bias_gelu<T>},
      {Opcode::matmul_backward_input, matmul_backward_input<T>},
      {Opcode::matmul_backward_input_gelu, matmul_backward_input_gelu<T>},
      {Opcode::matmul_backward_weight, matmul_backward_weight<T>},
      {Opcode::matmul_backward_weight_bias, matmul_backward_weight_bias<T>},
      {Opcode::bias, bias<T>},
      {Opcode::bias_backward, bias_backward<T>},
      {Opcode::relu, unary<T, kernels::relu_forward<T>>},
      {Opcode::relu_backward, binary<T, kernels::relu_backward<T>>},
      {Opcode::gelu, unary<T, kernels::gelu_forward<T>>},
      {Opcode::gelu_backward, binary<T, kernels::gelu_backward<T>>},
      {Opcode::silu, unary<T, kernels::silu_forward<T>>},
      {Opcode::silu_backward, binary<T, kernels::silu_backward<T>>},
      {Opcode::swiglu, binary<T, kernels::swiglu_forward<T>>},
      {Opcode::swiglu_backward, swiglu_backward<T>},
      {Opcode::dropout, dropout<T>},
      {Opcode::add, binary<T, kernels::add_forward<T>>},
      {Opcode::layer_norm, layer_norm<T>},
      {Opcode::residual_norm, residual_norm<T>},
      {Opcode::residual_rms_norm, residual_norm<T>},
      {Opcode::layer_norm_backward, layer_norm_backward<T>},
      {Opcode::layer_norm_backward_add, layer_norm_backward<T>},
      {Opcode::rms_norm, layer_norm<T>},
      {Opcode::rms_norm_backward, layer_norm_backward<T>},
      {Opcode::rms_norm_backward_add, layer_norm_backward<T>},
      {Opcode::cross_entropy, cross_entropy<T>},
      {Opcode::cross_entropy_stats, cross_entropy_stats<T>},
      {Opcode::cross_entropy_merge, cross_entropy_merge},
      {Opcode::cross_entropy_backward, cross_entropy_backward<T>},
  };
}
template std::vector<LaunchRow> dense_launches<float>();
template std::vector<LaunchRow> dense_launches<BFloat16>();
template std::vector<LaunchRow> dense_launches<Float16>();

}  // namespace hidup
