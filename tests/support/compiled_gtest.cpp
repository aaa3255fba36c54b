// A target needs a source; this one is there for its precompiled headers (tests/CMakeLists.txt).
