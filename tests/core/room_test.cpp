#include "core/room.h"

#include <gtest/gtest.h>

#include "core/check.h"

namespace hidup {
namespace {

TEST(Room, WhatThereIs) {
  check_address_space(int64_t{1} << 20, "this");
  check_threads(0, "this");
  check_threads(4, "this");
}

TEST(Room, MoreThanTheSystemHas) {
  try {
    check_address_space(int64_t{1} << 60, "this");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_EQ(std::string(error.what()).find("this needs "), 0U);
  }
}

}  // namespace
}  // namespace hidup
