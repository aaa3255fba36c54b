// A macro for functions that device code may call, too.
#pragma once

#ifdef __CUDACC__
#define HIDUP_HOST_DEVICE __host__ __device__
#else
#define HIDUP_HOST_DEVICE
#endif
