#include "core/failure.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <ios>
#include <new>
#include <stdexcept>
#include <system_error>

namespace hidup {
namespace {

constexpr size_t kReserve = size_t{4} << 20;
std::atomic<void*> g_reserve = nullptr;

Failure failure_of(const std::system_error& error) {
  // File errors come first, so that "no space" on a disk does not count as lack of memory.
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr ||
      dynamic_cast<const std::ios_base::failure*>(&error) != nullptr) {
    return {ExitCode::file, error.what()};
  }
  // std::thread throws this error; nothing else here asks the system for anything.
  if (error.code() == std::errc::resource_unavailable_try_again) {
    return {ExitCode::out_of_memory,
            fmt::format("cannot start a thread: {} (limits on processes, threads or memory)",
                        error.code().message())};
  }
  if (error.code() == std::errc::not_enough_memory) {
    return {ExitCode::out_of_memory, error.what()};
  }
  return {ExitCode::internal, error.what()};
}

}  // namespace

Failure current_failure() {
  std::free(g_reserve.exchange(nullptr));
  try {
    throw;
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::out_of_memory, "out of host memory"};
  } catch (const std::length_error& error) {
    // The program asked for a size that no container can have.
    return {ExitCode::out_of_memory, fmt::format("out of host memory: {}", error.what())};
  } catch (const std::system_error& error) {
    return failure_of(error);
  } catch (const std::exception& error) {
    return {ExitCode::internal, error.what()};
  } catch (...) {
    return {ExitCode::internal, "an exception of an unknown kind"};
  }
}

void reserve_memory_for_failure() {
  std::free(g_reserve.exchange(std::malloc(kReserve)));
}

}  // namespace hidup
