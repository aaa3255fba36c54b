// Kernels refuse arguments that break their contract before they give work to the stream: the
// pointers here are invalid.
#include "kernels/preconditions.h"

#include "core/check.h"
#include "kernel_test.h"
#include "kernels/activations.h"
#include "kernels/adam.h"
#include "kernels/add.h"
#include "kernels/add_parts.h"
#include "kernels/attention.h"
#include "kernels/bias.h"
#include "kernels/class_token.h"
#include "kernels/convert.h"
#include "kernels/copy_strided.h"
#include "kernels/cross_entropy.h"
#include "kernels/dispatch.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/expert_matmul.h"
#include "kernels/gate.h"
#include "kernels/layer_norm.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/positions.h"
#include "kernels/residual_norm.h"
#include "kernels/route.h"
#include "kernels/router_losses.h"

namespace hidup::kernels::testing {
namespace {

const float* const kIn = nullptr;
float* const kOut = nullptr;
const int32_t* const kIntsIn = nullptr;
int32_t* const kIntsOut = nullptr;
constexpr int64_t kHuge = int64_t{1} << 40;

void expect_refused(const char* what, const std::function<void(Stream&)>& issue) {
  SCOPED_TRACE(what);
  run([&](Stream& stream) {
    try {
      issue(stream);
      ADD_FAILURE() << "is not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::internal);
    }
  });
}

TEST(Preconditions, NegativeAndHugeTensorsOfElements) {
  expect_refused("add", [](Stream& s) { add_forward(s, kIn, kIn, kOut, -1); });
  expect_refused("relu", [](Stream& s) { relu_forward(s, kIn, kOut, -1); });
  expect_refused("relu_backward", [](Stream& s) { relu_backward(s, kIn, kIn, kOut, -1); });
  expect_refused("gelu", [](Stream& s) { gelu_forward(s, kIn, kOut, -1); });
  expect_refused("gelu_backward", [](Stream& s) { gelu_backward(s, kIn, kIn, kOut, -1); });
  expect_refused("silu", [](Stream& s) { silu_forward(s, kIn, kOut, -1); });
  expect_refused("silu_backward", [](Stream& s) { silu_backward(s, kIn, kIn, kOut, -1); });
  const BFloat16* const parts = nullptr;
  expect_refused("add_parts", [=](Stream& s) { add_parts(s, parts, 2, kOut, -1); });
  expect_refused("add_parts", [=](Stream& s) { add_parts(s, parts, -1, kOut, 2); });
  expect_refused("convert",
                 [](Stream& s) { convert(s, kIn, static_cast<BFloat16*>(nullptr), -1); });
  expect_refused("squared_norm", [](Stream& s) { squared_norm(s, kIn, -1, kOut, false); });
  expect_refused("fill_zero", [](Stream& s) { fill_zero(s, kOut, -4); });
  expect_refused("bias", [](Stream& s) { bias_forward(s, kIn, kIn, kOut, 2, -1); });
  expect_refused("bias", [](Stream& s) { bias_forward(s, kIn, kIn, kOut, kHuge, kHuge); });
  expect_refused("bias_backward", [](Stream& s) { bias_backward(s, kIn, kOut, -2, 1, false); });
  expect_refused("adam", [](Stream& s) {
    const AdamPart<float> part{
        .parameter = kOut, .gradient = kIn, .m = kOut, .v = kOut, .n = -1, .decays = false};
    adam_update<float>(s, {&part, 1}, {}, nullptr, nullptr);
  });
}

TEST(Preconditions, Matrices) {
  expect_refused("matmul", [](Stream& s) { matmul(s, kIn, kIn, kOut, {2, -1, 3}, false); });
  expect_refused("matmul", [](Stream& s) { matmul(s, kIn, kIn, kOut, {kHuge, 1, kHuge}, false); });
  const float bias = 0.0F;
  const Epilogue<float> none{.bias = &bias};
  expect_refused("a transposed", [&](Stream& s) {
    matmul_bias(s, kIn, kIn, kOut, {.m = 1, .n = 1, .k = 1, .transpose_a = true}, none);
  });
  expect_refused("no bias", [](Stream& s) { matmul_bias(s, kIn, kIn, kOut, {1, 1, 1}, {}); });
  expect_refused("no place for GELU's input", [&](Stream& s) {
    matmul_bias(s, kIn, kIn, kOut, {1, 1, 1},
                {.bias = &bias, .activation = Activation::gelu, .input = nullptr});
  });
  expect_refused("matmul_gelu_backward", [](Stream& s) {
    matmul_gelu_backward(s, kIn, kIn, kIn, kOut, {.m = 1, .n = 3, .k = 1, .c_stride = 4});
  });
  for (const auto& [a, b] : {std::pair{false, false}, {false, true}, {true, true}}) {
    expect_refused("matmul_sums", [a, b](Stream& s) {
      matmul_sums(s, kIn, kIn, kOut, {.m = 1, .n = 1, .k = 1, .transpose_a = a, .transpose_b = b},
                  Factor::b, kOut, false);
    });
  }
  expect_refused("expert_matmul", [](Stream& s) {
    expert_matmul(s, kIn, kIn, kIntsIn, kOut, {1, 1, -1, 2, 3});
  });
  expect_refused("expert_matmul_backward_input", [](Stream& s) {
    expert_matmul_backward_input(s, kIn, kIn, kIntsIn, kOut, {-1, 1, 1, 2, 3});
  });
  expect_refused("expert_matmul_backward_weight", [](Stream& s) {
    expert_matmul_backward_weight<float>(s, {.size = {kHuge, 1, 1, kHuge, 3}});
  });
  expect_refused("expert_bias", [](Stream& s) {
    expert_bias(s, kIn, kIn, kIntsIn, kOut, {1, -1, 1, 0, 3});
  });
  expect_refused("expert_bias_backward", [](Stream& s) {
    expert_bias_backward(s, kIn, kIntsIn, kOut, {1, 1, 1, 0, -3}, false);
  });
}

// Rows overlap, or lie too far apart.
TEST(Preconditions, RowStrides) {
  for (const int64_t stride : {int64_t{-1}, int64_t{2}, 4 * kHuge}) {
    const int64_t rows = stride > 3 ? kHuge : 2;
    SCOPED_TRACE(stride);
    expect_refused("a", [=](Stream& s) {
      matmul(s, kIn, kIn, kOut, {.m = rows, .n = 1, .k = 3, .a_stride = stride}, false);
    });
    expect_refused("b", [=](Stream& s) {
      matmul(s, kIn, kIn, kOut, {.m = 1, .n = 3, .k = rows, .b_stride = stride}, false);
    });
    expect_refused("c", [=](Stream& s) {
      matmul(s, kIn, kIn, kOut, {.m = rows, .n = 3, .k = 1, .c_stride = stride}, false);
    });
    expect_refused("bias", [=](Stream& s) { bias_forward(s, kIn, kIn, kOut, rows, 3, stride); });
    expect_refused("bias_backward",
                   [=](Stream& s) { bias_backward(s, kIn, kOut, rows, 3, false, stride); });
    expect_refused("cross_entropy", [=](Stream& s) {
      cross_entropy_forward<float>(s, {.rows = rows, .vocab = 3, .stride = stride});
    });
    expect_refused("cross_entropy_stats", [=](Stream& s) {
      cross_entropy_stats<float>(s, {.rows = rows, .columns = 3, .stride = stride});
    });
    expect_refused("cross_entropy_backward", [=](Stream& s) {
      cross_entropy_backward<float>(s, {.rows = rows, .columns = 3, .stride = stride});
    });
  }
  const float bias = 0.0F;
  expect_refused("an activation", [&](Stream& s) {
    matmul_bias(s, kIn, kIn, kOut, {.m = 1, .n = 3, .k = 1, .c_stride = 4},
                {.bias = &bias, .activation = Activation::relu});
  });
}

TEST(Preconditions, Rows) {
  expect_refused("layer_norm without elements",
                 [](Stream& s) { layer_norm_forward<float>(s, {.rows = 2, .n = 0}); });
  expect_refused("layer_norm_backward",
                 [](Stream& s) { layer_norm_backward<float>(s, {.rows = -2, .n = 3}); });
  for (const SequenceSize& size :
       {SequenceSize{-1, 2, 3}, {1, -2, 3}, {1, 2, -3}, {kHuge, kHuge, 1}}) {
    expect_refused("prepend", [&](Stream& s) { prepend_forward(s, kIn, kIn, kOut, size); });
    expect_refused("prepend_backward",
                   [&](Stream& s) { prepend_backward<float>(s, {.size = size}); });
    expect_refused("first", [&](Stream& s) { first_forward(s, kIn, kOut, size, false); });
    expect_refused("first_backward", [&](Stream& s) { first_backward(s, kIn, kOut, size, false); });
  }
  expect_refused("first of nothing", [](Stream& s) {
    first_forward(s, kIn, kOut, {2, 0, 3}, true);
  });
  expect_refused("cross_entropy beyond i32", [](Stream& s) {
    cross_entropy_forward<float>(s, {.rows = 1, .vocab = int64_t{1} << 31});
  });
  expect_refused("cross_entropy_stats", [](Stream& s) {
    cross_entropy_stats<float>(s, {.rows = 1, .columns = 2, .first = -1});
  });
  expect_refused("cross_entropy_merge",
                 [](Stream& s) { cross_entropy_merge(s, {.parts = -1, .rows = 2}); });
  expect_refused("cross_entropy_backward", [](Stream& s) {
    cross_entropy_backward<float>(s, {.rows = 1, .columns = 2, .first = INT32_MAX});
  });
}

TEST(Preconditions, Regions) {
  const StepState state;
  const Region whole = box({2, 3, 4}, {0, 0, 0}, {2, 3, 4});
  const Region beyond = box({2, 3, 4}, {0, 2, 0}, {2, 3, 4});
  const Region before = box({2, 3, 4}, {0, -1, 0}, {2, 3, 4});
  for (const Region& region : {beyond, before, box({6, 4}, {0, 0}, {6, 4})}) {
    expect_refused("positions", [&](Stream& s) { positions_forward(s, kIn, kOut, region); });
  }
  for (const DropoutMask& mask : {DropoutMask{beyond, 0.5F, 1, &state},
                                  {whole, 1.0F, 1, &state},
                                  {whole, -0.1F, 1, &state},
                                  {whole, 0.5F, 1, nullptr}}) {
    expect_refused("dropout", [&](Stream& s) { dropout(s, kIn, kOut, mask); });
    expect_refused("residual_norm", [&](Stream& s) {
      residual_norm<float>(s, {.dropout = mask, .rows = 6, .n = 4});
    });
  }
  expect_refused("residual_norm of rows that are cut", [&](Stream& s) {
    const Region cut = box({2, 3, 8}, {0, 0, 0}, {2, 3, 4});
    residual_norm<float>(s, {.dropout = {cut, 0.5F, 1, &state}, .rows = 3, .n = 8});
  });
  expect_refused("residual_norm of fewer rows", [&](Stream& s) {
    residual_norm<float>(s, {.dropout = {whole, 0.5F, 1, &state}, .rows = 5, .n = 4});
  });
}

TEST(Preconditions, Attention) {
  for (const AttentionSize size : {AttentionSize{1, 2, 3, 3, 0},
                                   {1, -2, 3, 3, 4},
                                   {kHuge, kHuge, 1, 1, 1},
                                   {1, 2, 3, 2, 4},
                                   {1, 2, 3, 0, 4},
                                   {1, 2, 3, -3, 4}}) {
    expect_refused("attention", [&](Stream& s) { attention_forward<float>(s, {.size = size}); });
    expect_refused("attention_backward",
                   [&](Stream& s) { attention_backward<float>(s, {.size = size}); });
  }
}

TEST(Preconditions, TokensAndTheirExperts) {
  for (const EmbeddingSize size : {EmbeddingSize{-1, 2, 3}, {1, 2, 3, -1}, {1, 2, 3, INT32_MAX}}) {
    expect_refused("embedding",
                   [&](Stream& s) { embedding_forward(s, kIntsIn, kIn, kOut, size, 1.0F); });
    expect_refused("embedding_backward",
                   [&](Stream& s) { embedding_backward<float>(s, {.size = size}); });
  }
  for (const RouteSize size :
       {RouteSize{1, 2, 3, -1, 4}, {1, 2, 3, 0, 4}, {1, 2, 1 << 16, 1, 1 << 15}}) {
    expect_refused("route", [&](Stream& s) { route_forward(s, kIn, kIntsOut, size); });
    expect_refused("route_chosen", [&](Stream& s) { route_chosen(s, kIntsIn, kIntsOut, size); });
    const GateSize gate{2, size.experts, size.choices, size.capacity};
    expect_refused("gate", [&](Stream& s) { gate_forward(s, kIn, kIntsIn, kOut, gate); });
    expect_refused("gate_backward",
                   [&](Stream& s) { gate_backward(s, kIn, kIntsIn, kIn, kOut, gate); });
  }
  for (const auto& [tokens, counted] : {std::pair<int64_t, int64_t>{2, 0}, {2, 4}, {-1, 1}}) {
    expect_refused("router_sums", [&, tokens = tokens, counted = counted](Stream& s) {
      router_sums<float>(s, {.tokens = tokens, .experts = 3, .choices = 3, .counted = counted});
    });
  }
  expect_refused("router_losses_backward", [&](Stream& s) {
    router_losses_backward<float>(s, {.tokens = 2, .experts = 3, .counted = 0});
  });
  for (const auto& [first, capacity] :
       {std::pair<int64_t, int64_t>{-1, 4}, {0, -4}, {3, 1 << 29}}) {
    const DispatchSize size{.batch = 1,
                            .sequence = 2,
                            .choices = 1,
                            .experts = 2,
                            .first_expert = first,
                            .capacity = capacity,
                            .width = 3};
    expect_refused("dispatch", [&](Stream& s) { dispatch_forward(s, kIn, kIntsIn, kOut, size); });
    expect_refused("dispatch_backward",
                   [&](Stream& s) { dispatch_backward(s, kIn, kIntsIn, kOut, size); });
    expect_refused("combine",
                   [&](Stream& s) { combine_forward(s, kIn, kIntsIn, kIn, kOut, size); });
    expect_refused("combine_backward",
                   [&](Stream& s) { combine_backward<float>(s, {.size = size}); });
    expect_refused("expert_counts", [&, first = first, capacity = capacity](Stream& s) {
      expert_counts(
          s, {.batch = 1, .entries = 2, .capacity = capacity, .first_expert = first, .experts = 2});
    });
  }
  expect_refused("round_counts", [](Stream& s) { round_counts(s, {kIntsIn, nullptr, -1, 0, 1}); });
  expect_refused("expert_load",
                 [](Stream& s) { expert_load(s, kIntsIn, kOut, int64_t{1} << 31, 2, 3); });
}

TEST(Preconditions, StridedCopies) {
  const auto copied = [](const StridedCopy& copy, int64_t shift) {
    return [=](Stream& s) {
      copy_strided(s, reinterpret_cast<const std::byte*>(16 + shift), kOut, copy);
    };
  };
  expect_refused("an element", copied({.element = 3}, 0));
  expect_refused("dimensions", copied({.dims = kMaxDims + 1}, 0));
  expect_refused("an extent", copied({.dims = 1, .extent = {-1}}, 0));
  expect_refused("an address", copied({.element = 4, .dims = 1, .extent = {0}}, 2));
  run(copied({.element = 2, .dims = 1, .extent = {0}}, 2));
}

// A CUDA grid has at most 65,535 blocks along y.
TEST(Preconditions, ExtentsThatFitNoGrid) {
  if (device_kind() != "cuda") {
    GTEST_SKIP() << "without grids";
  }
  constexpr int64_t kWide = int64_t{1} << 25;
  expect_refused("expert_bias_backward", [](Stream& s) {
    expert_bias_backward(s, kIn, kIntsIn, kOut, {1, 1, 1, 0, kWide}, false);
  });
  expect_refused("layer_norm", [](Stream& s) {
    layer_norm_forward<float>(s, {.rows = int64_t{1} << 35, .n = 1});
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
