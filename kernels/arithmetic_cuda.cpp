#include "kernels/arithmetic.h"

namespace hidup::kernels {

bool has_bf16_products() {
  return true;
}
bool bf16_products_are_faster() {
  return true;
}
void multiply_bf16_natively(bool) {}
bool bf16_is_native() {
  return true;
}
std::string describe_arithmetic() {
  return "";
}

}  // namespace hidup::kernels
