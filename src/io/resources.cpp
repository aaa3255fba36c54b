#include "io/resources.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <span>
#include <string_view>

#include "io/hdf5.h"

namespace hidup {

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

namespace {

bool starts_with_any(std::string_view text, std::span<const std::string_view> starts) {
  return std::ranges::any_of(starts, [&](std::string_view s) { return text.starts_with(s); });
}

// Returns true for variables that mpirun sets for its ranks. Nobody else sets them, they differ in
// every run, and one is the key by which the ranks of a job know each other.
bool is_of_launcher(std::string_view name) {
  constexpr std::array<std::string_view, 5> kOfMpirun = {"OMPI_MCA_ess", "OMPI_MCA_initial_wdir",
                                                         "OMPI_MCA_orte_", "OMPI_MCA_pmix",
                                                         "OMPI_MCA_shmem_"};
  return (name.starts_with("OMPI_") && !name.starts_with("OMPI_MCA_")) ||
         starts_with_any(name, kOfMpirun);
}

// Returns true if a word of the name marks a credential.
bool is_secret(std::string_view name) {
  constexpr std::array<std::string_view, 10> kWords = {
      "AUTH", "COOKIE", "CREDENTIAL", "CREDENTIALS", "JWT",
      "KEY",  "PASSWD", "PASSWORD",   "SECRET",      "TOKEN"};
  while (!name.empty()) {
    std::string word(name.substr(0, name.find('_')));
    name.remove_prefix(std::min(name.size(), word.size() + 1));
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::toupper(c); });
    if (std::ranges::find(kWords, word) != kWords.end()) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> run_environment() {
  constexpr std::array<std::string_view, 5> kWanted = {"CUDA_", "NCCL_", "OMPI_", "SLURM_", "OMP_"};
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::string_view name = variable.substr(0, variable.find('='));
    if (starts_with_any(name, kWanted) && !is_of_launcher(name) && !is_secret(name)) {
      variables.emplace_back(variable);
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
