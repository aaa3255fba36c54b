# NCCL and cuBLASLt, for HIDUP_CUDA: from the toolkit's folder or from CMAKE_PREFIX_PATH, else from
# Python's packages, which PyTorch brings with it.

# hidup_python_library(NAME FILE HEADER...)
# Sets NAME_LIBRARY and NAME_INCLUDE_DIR if a package of NVIDIA in Python's folders has both. The package's
# folder may hold headers of another toolkit, too, so NAME_INCLUDE_DIR is a folder of links to the named ones.
function(hidup_python_library NAME FILE HEADER)
  execute_process(COMMAND python3 -c "import nvidia; print(*nvidia.__path__, sep=';')"
                  OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  foreach(folder ${folders})
    file(GLOB libraries ${folder}/*/lib/${FILE})
    foreach(library ${libraries})
      cmake_path(GET library PARENT_PATH headers)
      cmake_path(REPLACE_FILENAME headers include)
      if(EXISTS ${headers}/${HEADER})
        set(links ${PROJECT_BINARY_DIR}/python_headers/${NAME})
        file(MAKE_DIRECTORY ${links})
        foreach(header ${HEADER} ${ARGN})
          file(CREATE_LINK ${headers}/${header} ${links}/${header} SYMBOLIC)
        endforeach()
        set(${NAME}_LIBRARY ${library} CACHE FILEPATH "One of Python's packages" FORCE)
        set(${NAME}_INCLUDE_DIR ${links} CACHE PATH "One of Python's packages" FORCE)
        return()
      endif()
    endforeach()
  endforeach()
endfunction()

# hidup_cuda_library(TARGET NAME FILE PACKAGE HEADER...)
# TARGET is the library lib<NAME>; Python's PACKAGE also has its FILE and headers. Programs find it by
# their rpath.
function(hidup_cuda_library TARGET NAME FILE PACKAGE HEADER)
  string(TOUPPER ${NAME} UPPER)
  find_path(${UPPER}_INCLUDE_DIR ${HEADER} HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(${UPPER}_LIBRARY NAMES ${NAME} ${FILE} HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(NOT ${UPPER}_INCLUDE_DIR OR NOT ${UPPER}_LIBRARY)
    hidup_python_library(${UPPER} ${FILE} ${HEADER} ${ARGN})
  endif()
  if(NOT ${UPPER}_INCLUDE_DIR OR NOT ${UPPER}_LIBRARY)
    message(FATAL_ERROR "HIDUP_CUDA needs lib${NAME} and ${HEADER}: found ${${UPPER}_LIBRARY} and "
                        "${${UPPER}_INCLUDE_DIR}. Install both beside the CUDA toolkit, tell their folder "
                        "with CMAKE_PREFIX_PATH, or python3 -m pip install ${PACKAGE}")
  endif()
  message(STATUS "${TARGET}: ${${UPPER}_LIBRARY}")
  add_library(${TARGET} SHARED IMPORTED)
  set_target_properties(${TARGET} PROPERTIES IMPORTED_LOCATION ${${UPPER}_LIBRARY}
                                             INTERFACE_INCLUDE_DIRECTORIES ${${UPPER}_INCLUDE_DIR})
endfunction()

set(major ${CUDAToolkit_VERSION_MAJOR})
if(TARGET CUDA::cublasLt)
  message(STATUS "CUDA::cublasLt: ${CUDA_cublasLt_LIBRARY}")
elseif(major EQUAL 12)
  hidup_cuda_library(CUDA::cublasLt cublasLt libcublasLt.so.12 nvidia-cublas-cu12 cublasLt.h cublas_api.h)
else()
  hidup_cuda_library(CUDA::cublasLt cublasLt libcublasLt.so.${major} nvidia-cublas cublasLt.h cublas_api.h)
endif()
hidup_cuda_library(NCCL::nccl nccl libnccl.so.2 nvidia-nccl-cu${major} nccl.h)

file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h numbers REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
string(REGEX REPLACE "[^0-9;]" "" numbers "${numbers}")
list(JOIN numbers . NCCL_VERSION)
if(NCCL_VERSION VERSION_LESS 2.19)
  message(FATAL_ERROR "HIDUP_CUDA needs NCCL 2.19 or later; ${NCCL_INCLUDE_DIR}/nccl.h is "
                      "${NCCL_VERSION}")
endif()
message(STATUS "NCCL ${NCCL_VERSION}")
