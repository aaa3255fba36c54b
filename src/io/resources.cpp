#include "io/resources.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <string_view>

#include "io/hdf5.h"

namespace hidup {

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::vector<std::string> run_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    if (variable.starts_with("SLURM_JWT=")) {
      continue;
    }
    for (const std::string_view prefix : {"CUDA_", "NCCL_", "OMPI_", "SLURM_", "OMP_"}) {
      if (variable.starts_with(prefix)) {
        variables.emplace_back(variable);
      }
    }
  }
  std::sort(variables.begin(), variables.end());
  return variables;
}

LibraryVersion hdf5_library() {
  return {"HDF5", fmt::format("{}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE),
          hdf5_version()};
}

std::string hdf5_version() {
  const auto lock = hdf5::lock_library();
  return hdf5::version();
}

}  // namespace hidup
