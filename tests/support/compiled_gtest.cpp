// Gives the target of the precompiled headers the source that it needs (tests/CMakeLists.txt).
