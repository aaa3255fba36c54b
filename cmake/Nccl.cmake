# NCCL, for HIDUP_CUDA: from beside the toolkit or where CMAKE_PREFIX_PATH says.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
  message(FATAL_ERROR "HIDUP_CUDA needs NCCL: nccl.h is ${NCCL_INCLUDE_DIR}, the library is "
                      "${NCCL_LIBRARY}. Install it, or tell its folder with CMAKE_PREFIX_PATH")
endif()
file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h numbers REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
string(REGEX REPLACE "[^0-9;]" "" numbers "${numbers}")
list(JOIN numbers . NCCL_VERSION)
if(NCCL_VERSION VERSION_LESS 2.19)
  message(FATAL_ERROR "HIDUP_CUDA needs NCCL 2.19 or later; ${NCCL_INCLUDE_DIR}/nccl.h is "
                      "${NCCL_VERSION}")
endif()
message(STATUS "NCCL ${NCCL_VERSION}: ${NCCL_LIBRARY}")
add_library(NCCL::nccl UNKNOWN IMPORTED)
set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                                            INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
