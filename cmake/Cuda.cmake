# CUDA's compiler and libraries, for HIDUP_CUDA.
if(HIDUP_CUDA_SHIM)
  message(FATAL_ERROR "HIDUP_CUDA and HIDUP_CUDA_SHIM are two builds: choose one")
endif()
find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin REQUIRED)

set(CMAKE_CUDA_ARCHITECTURES ${HIDUP_CUDA_ARCHITECTURES})
if(NOT HIDUP_CUDA_ARCHITECTURES)
  # Builds machine code for each, and PTX of the newest for later GPUs.
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known
                  COMMAND_ERROR_IS_FATAL ANY)
  foreach(architecture 70 80 90 100)
    if(known MATCHES "compute_${architecture}\n")
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
      set(newest ${architecture})
    endif()
  endforeach()
  list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest}-virtual)
endif()

set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # the runtime that cuBLASLt uses
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit 12.4 REQUIRED)
message(STATUS "CUDA ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
