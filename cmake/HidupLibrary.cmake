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

# hidup_library(NAME [DIR folder] SOURCES ... [LINKS hidup targets] [PRIVATE other targets])
#
# One folder is one target. Its headers are reached as "NAME/x.h" through an
# include directory that holds nothing but this folder, and that only targets
# which link it see: an include the folder order forbids does not build.
function(hidup_library NAME)
  cmake_parse_arguments(ARG "" "DIR" "SOURCES;LINKS;PRIVATE" ${ARGN})
  if(NOT ARG_DIR)
    set(ARG_DIR ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  add_library(hidup_${NAME} STATIC ${ARG_SOURCES})
  set(view ${PROJECT_BINARY_DIR}/include/${NAME})
  file(MAKE_DIRECTORY ${view})
  file(CREATE_LINK ${ARG_DIR} ${view}/${NAME} SYMBOLIC)
  target_include_directories(hidup_${NAME} PUBLIC ${view})
  list(TRANSFORM ARG_LINKS PREPEND hidup_)
  target_link_libraries(hidup_${NAME} PUBLIC ${ARG_LINKS} PRIVATE hidup_options ${ARG_PRIVATE})
endfunction()
