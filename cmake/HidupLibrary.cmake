# Compiler settings that every target of the project shares.
add_library(hidup_options INTERFACE)
# -Wrestrict reports std::string operations that are right (GCC 12, bug 105329).
set(warnings -Wall -Wextra -Wshadow -Wno-restrict -Wno-missing-field-initializers)
if(CMAKE_UNITY_BUILD)  # a source that another includes is taken for a header there
  list(APPEND warnings -Wno-subobject-linkage)
endif()
if(HIDUP_WERROR)
  list(APPEND warnings -Werror)
endif()
target_compile_options(hidup_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings};-Wpedantic>")
if(HIDUP_CUDA)
  list(JOIN warnings , host_warnings)
  target_compile_options(hidup_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:$<$<BOOL:${HIDUP_WERROR}>:-Werror=all-warnings>;-Xcompiler=${host_warnings}>")
endif()
if(HIDUP_SANITIZE)
  target_compile_options(hidup_options INTERFACE -fsanitize=${HIDUP_SANITIZE}
                                                 -fno-omit-frame-pointer)
  target_link_options(hidup_options INTERFACE -fsanitize=${HIDUP_SANITIZE})
endif()

# hidup_library(NAME SOURCES ... [LINKS hidup targets] [PRIVATE other targets])
#
# One folder is one target, hidup_NAME. NAME may be a path (search/dp); the target's name then has
# an underscore for each slash. Headers are reached as "NAME/x.h" through an include directory that
# holds nothing but this folder, and that only targets which link it see: an include that the folder
# order forbids does not build.
function(hidup_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE" ${ARGN})
  string(REPLACE "/" "_" target ${NAME})
  add_library(hidup_${target} STATIC ${ARG_SOURCES})
  set(view ${PROJECT_BINARY_DIR}/include/${target})
  cmake_path(GET NAME PARENT_PATH parent)
  file(MAKE_DIRECTORY ${view}/${parent})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${view}/${NAME} SYMBOLIC)
  target_include_directories(hidup_${target} PUBLIC ${view})
  list(TRANSFORM ARG_LINKS REPLACE "/" "_")
  list(TRANSFORM ARG_LINKS PREPEND hidup_)
  target_link_libraries(hidup_${target} PUBLIC ${ARG_LINKS} PRIVATE hidup_options ${ARG_PRIVATE})
endfunction()
