#include "kernels/products.h"

#include "core/check.h"
#include "kernels/cuda_gemm.h"
#include "kernels/cuda_launch.h"

namespace hidup::kernels {
namespace {

int reserved = 0;

}  // namespace

void reserve_multiprocessors(int count) {
  if (count >= multiprocessors()) {
    fail(ExitCode::usage, "products leave {} multiprocessor(s) to messages, of {} that the GPU has",
         count, multiprocessors());
  }
  reserved = count;
}

int multiprocessors_for_products() {
  return BesideMessages::now() && reserved > 0 ? multiprocessors() - reserved : 0;
}

}  // namespace hidup::kernels
