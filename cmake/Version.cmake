# version.cpp holds the version and the commit; it is rewritten at every build,
# and only when one of them changed, so that a run names the code it ran.
set(HIDUP_VERSION_CPP ${PROJECT_BINARY_DIR}/version.cpp)
add_custom_target(hidup_version_file ALL
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
          -DOUTPUT=${HIDUP_VERSION_CPP} -P ${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake
  BYPRODUCTS ${HIDUP_VERSION_CPP}
  COMMENT "Reading the commit")
