// The vector types and qualifiers of CUDA C++, for a host compiler.
#pragma once

#include <cstdint>

// A kernel whose accesses are counted (counters.h) is one function, because arguments that a call
// passes by value in memory would be missed.
#ifdef __SANITIZE_THREAD__
#define __global__ __attribute__((flatten))
#else
#define __global__
#endif
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// An OS thread runs one block at a time, all of its threads as fibers. The variable has no dynamic
// initialization and no guard.
#define __shared__ static constinit thread_local

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned of_x = 1, unsigned of_y = 1, unsigned of_z = 1)
      : x(of_x), y(of_y), z(of_z) {}
};

struct __align__(8) float2 {
  float x, y;
};

struct __align__(16) float4 {
  float x, y, z, w;
};

struct __align__(8) int2 {
  int x, y;
};

struct __align__(16) int4 {
  int x, y, z, w;
};

struct __align__(16) uint4 {
  unsigned x, y, z, w;
};

inline float2 make_float2(float x, float y) {
  return {x, y};
}

inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

inline int4 make_int4(int x, int y, int z, int w) {
  return {x, y, z, w};
}

inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
