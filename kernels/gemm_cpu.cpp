#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "core/check.h"
#include "kernels/cpu_gemm.h"

namespace hidup::kernels {
namespace {

using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

template <typename Element>
constexpr memory::data_type kType =
    std::is_same_v<Element, float> ? memory::data_type::f32 : memory::data_type::bf16;

memory operand(const memory::desc& desc, const void* data) {
  return {desc, engine(), const_cast<void*>(data)};
}

// What this thread made once for operands of the same shape.
template <typename Key, typename Made, typename Make>
const Made& made_for(const Key& key, Make make) {
  constexpr size_t kMost = 4096;
  thread_local std::map<Key, Made> all;
  const auto found = all.find(key);
  if (found != all.end()) {
    return found->second;
  }
  if (all.size() == kMost) {
    all.clear();
  }
  return all.emplace(key, make()).first->second;
}

struct Reorder {
  memory::desc from;
  memory::desc to;
  dnnl::reorder run;
};

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, ConstMatrix<float> a, ConstMatrix<float> b, float beta,
          float* c, int64_t c_stride) noexcept {
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F, a.data,
                 a.stride, b.data, b.stride, beta, c, c_stride);
  check(status == dnnl_success, "dnnl_sgemm of m={} n={} k={} returned status {}", m, n, k,
        static_cast<int>(status));
}

template <typename Element>
void transpose(const Element* from, int64_t stride, int64_t rows, int64_t columns,
               float* to) noexcept {
  thread_local dnnl::stream stream(engine());
  const auto key = std::tuple(kType<Element>, stride, rows, columns);
  const auto& reorder = made_for<decltype(key), Reorder>(key, [&] {
    const memory::desc source({rows, columns}, kType<Element>, {1, stride});
    const memory::desc dense({rows, columns}, kType<float>, {columns, 1});
    return Reorder{
        source, dense,
        dnnl::reorder(dnnl::reorder::primitive_desc(engine(), source, engine(), dense))};
  });
  reorder.run.execute(stream, {{DNNL_ARG_FROM, operand(reorder.from, from)},
                               {DNNL_ARG_TO, operand(reorder.to, to)}});
}

template decltype(transpose<float>) transpose<float>;
template decltype(transpose<BFloat16>) transpose<BFloat16>;

}  // namespace hidup::kernels
