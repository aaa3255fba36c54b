# Compiler settings that every target of the project shares.
add_library(hidup_options INTERFACE)
# -Wrestrict reports correct std::string operations (GCC 12, bug 105329).
set(warnings -Wall -Wextra -Wshadow -Wno-restrict -Wno-missing-field-initializers)
if(HIDUP_COMPILED_HEADERS)  # these two report correct strings at -O3
  list(APPEND warnings -Wno-array-bounds -Wno-stringop-overflow)
endif()
if(CMAKE_UNITY_BUILD)  # a source that another one includes counts as a header
  list(APPEND warnings -Wno-subobject-linkage)
endif()
if(HIDUP_WERROR)
  list(APPEND warnings -Werror)
endif()
target_compile_options(hidup_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings};-Wpedantic>")
# GCC collects garbage from 128 MB on, which takes a tenth of a build. If it waits for a gigabyte, no
# source needs more than 1.2 GB.
target_compile_options(hidup_options INTERFACE
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=1000000>")
if(HIDUP_CUDA)
  list(JOIN warnings , host_warnings)
  target_compile_options(hidup_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:$<$<BOOL:${HIDUP_WERROR}>:-Werror=all-warnings>;-Xcompiler=${host_warnings}>")
endif()
if(HIDUP_SANITIZE)
  target_compile_options(hidup_options INTERFACE -fsanitize=${HIDUP_SANITIZE}
                                                 -fno-omit-frame-pointer)
  if(HIDUP_SANITIZE MATCHES address.*undefined)
    # The address sanitizer also finds accesses through a wrong pointer or behind an object. A folder
    # with PLAIN_DATA reads no bytes as another type. Undefined behaviour in a test's own code says
    # nothing about the program. These checks are a third of the build.
    target_compile_options(hidup_options INTERFACE
      -fno-sanitize=null,object-size,pointer-overflow
      $<$<BOOL:$<TARGET_PROPERTY:HIDUP_PLAIN_DATA>>:-fno-sanitize=alignment>
      $<$<BOOL:$<TARGET_PROPERTY:HIDUP_TEST_CODE>>:-fno-sanitize=undefined>)
  endif()
  target_link_options(hidup_options INTERFACE -fsanitize=${HIDUP_SANITIZE})
endif()

# The standard library's headers are compiled once: reading them is a third of a debug build of grouped
# sources, and an eighth at -O3.
if(HIDUP_COMPILED_HEADERS)
  set(hidup_headers <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstdint>
                    <cstdlib> <cstring> <deque> <filesystem> <fstream> <functional> <limits> <map> <memory>
                    <mutex> <numeric> <optional> <random> <set> <span> <string> <string_view> <thread>
                    <tuple> <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h>)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/compiled_headers.cpp CONTENT
       "// A target needs a source; this one is there for its precompiled headers.\n")
  add_library(hidup_compiled_headers OBJECT ${PROJECT_BINARY_DIR}/compiled_headers.cpp)
  target_link_libraries(hidup_compiled_headers PRIVATE hidup_options fmt::fmt)
  target_precompile_headers(hidup_compiled_headers PRIVATE ${hidup_headers})
endif()

# hidup_library(NAME SOURCES ... [LINKS hidup targets] [PRIVATE other targets])
#
# One folder is one target, hidup_NAME. NAME may be a path (search/dp); the target's name then has
# an underscore for each slash. Headers are reached as "NAME/x.h" through an include directory that
# holds nothing but this folder, and that only targets which link it see: an include that the folder
# order forbids does not build.
#
# With HIDUP_HOST_LIBRARIES, a folder with the same code with and without a GPU is not compiled. The
# library of that build folder, which must be built first and kept up to date, replaces it.
function(hidup_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE" ${ARGN})
  string(REPLACE "/" "_" target ${NAME})
  set(view ${PROJECT_BINARY_DIR}/include/${target})
  cmake_path(GET NAME PARENT_PATH parent)
  file(MAKE_DIRECTORY ${view}/${parent})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${view}/${NAME} SYMBOLIC)
  list(TRANSFORM ARG_LINKS REPLACE "/" "_")
  list(TRANSFORM ARG_LINKS PREPEND hidup_)
  set(sources ${PROJECT_SOURCE_DIR}/src)
  cmake_path(IS_PREFIX sources ${CMAKE_CURRENT_SOURCE_DIR} is_program)
  if(HIDUP_HOST_LIBRARIES AND is_program AND NOT NAME MATCHES "^(device|comm)$")
    add_library(hidup_${target} STATIC IMPORTED GLOBAL)
    set_target_properties(hidup_${target} PROPERTIES
      IMPORTED_LOCATION ${HIDUP_HOST_LIBRARIES}/src/${NAME}/libhidup_${target}.a)
    target_include_directories(hidup_${target} INTERFACE ${view})
    list(TRANSFORM ARG_PRIVATE REPLACE "(.+)" "$<LINK_ONLY:\\1>")
    target_link_libraries(hidup_${target} INTERFACE ${ARG_LINKS} ${ARG_PRIVATE})
    return()
  endif()
  add_library(hidup_${target} STATIC ${ARG_SOURCES})
  target_include_directories(hidup_${target} PUBLIC ${view})
  target_link_libraries(hidup_${target} PUBLIC ${ARG_LINKS} PRIVATE hidup_options ${ARG_PRIVATE})
  if(HIDUP_COMPILED_HEADERS)
    if(NAME STREQUAL kernels)  # its compiler options need headers compiled with them
      target_precompile_headers(hidup_${target} PRIVATE ${hidup_headers})
    elseif(NOT NAME STREQUAL device)  # device has a file or two, with OpenMP
      target_precompile_headers(hidup_${target} REUSE_FROM hidup_compiled_headers)
    endif()
  endif()
endfunction()
