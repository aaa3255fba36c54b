// Functions and classes for the tests of the shim.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cuda_shim/fault.h"

namespace cuda_shim {

template <typename... Parameters, typename... Arguments>
cudaError_t launch_and_wait(dim3 grid, dim3 block, void (*kernel)(Parameters...),
                            Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  const cudaError_t error =
      cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
  return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
}

// n values in device memory.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(size_t n, T value) : n_(n) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), n * sizeof(T)), cudaSuccess);
    std::fill_n(data_, n, value);
  }
  ~DeviceArray() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() { return data_; }
  std::vector<T> values() const { return {data_, data_ + n_}; }
  T operator*() const { return *data_; }

 private:
  size_t n_;
  T* data_ = nullptr;
};

// Clears the fault that the test made and returns its report.
inline std::string take_fault() {
  const std::string text = fault();
  cudaDeviceReset();
  return text;
}

}  // namespace cuda_shim
