# version.cpp holds the version and the commit, so that a run names its code. Every build checks it
# and rewrites it only if one of them changed.
set(HIDUP_VERSION_CPP ${PROJECT_BINARY_DIR}/version.cpp)
add_custom_target(hidup_version_file ALL
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
          -DOUTPUT=${HIDUP_VERSION_CPP} -P ${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake
  BYPRODUCTS ${HIDUP_VERSION_CPP}
  COMMENT "Reading the commit")
