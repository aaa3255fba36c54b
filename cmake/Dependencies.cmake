# All packages here are in Debian 12; the README gives their uses.
find_package(Threads REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
find_package(HDF5 REQUIRED COMPONENTS C)
# Selects the functions of HDF5 1.10, which later versions have, too.
target_compile_definitions(HDF5::HDF5 INTERFACE H5_USE_110_API)
find_package(yaml-cpp REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_path(ISAL_INCLUDE_DIR isa-l/crc.h REQUIRED)
find_library(ISAL_LIBRARY isal REQUIRED)
add_library(ISAL::isal UNKNOWN IMPORTED)
set_target_properties(ISAL::isal PROPERTIES IMPORTED_LOCATION ${ISAL_LIBRARY}
                                            INTERFACE_INCLUDE_DIRECTORIES ${ISAL_INCLUDE_DIR})
find_path(CLP_INCLUDE_DIR ClpSimplex.hpp PATH_SUFFIXES coin REQUIRED)
find_library(CLP_LIBRARY Clp REQUIRED)
find_library(COINUTILS_LIBRARY CoinUtils REQUIRED)
add_library(Clp::Clp UNKNOWN IMPORTED)
set_target_properties(Clp::Clp PROPERTIES IMPORTED_LOCATION ${CLP_LIBRARY}
                                          INTERFACE_INCLUDE_DIRECTORIES ${CLP_INCLUDE_DIR}
                                          INTERFACE_LINK_LIBRARIES ${COINUTILS_LIBRARY})
if(HIDUP_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
if(HIDUP_TESTS)
  find_package(GTest REQUIRED)
endif()

if(NOT HIDUP_CUDA)
  # Debian's own dnnl-config.cmake asks for OpenCL's headers, which the CPU engine does not need.
  find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h REQUIRED)
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                                              INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
endif()

# The sanitizers have allocators of their own.
if(NOT HIDUP_SANITIZE)
  find_library(JEMALLOC_LIBRARY jemalloc REQUIRED)
endif()

find_program(CCACHE ccache)
if(CCACHE)  # by default ccache does not cache sources with compiled headers
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                  ${CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()
