// Names of functions, and lines of sources.
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "counters.h"

namespace cuda_shim {
namespace {

// Returns the address at which the program is loaded.
uintptr_t load_address() {
  uintptr_t address = 0;
  const auto read = [](dl_phdr_info* info, size_t, void* result) {
    *static_cast<uintptr_t*>(result) = info->dlpi_addr;
    return 1;  // the program is the first of all objects
  };
  dl_iterate_phdr(read, &address);
  return address;
}

std::string line_of(std::FILE* file) {
  char text[4096];
  std::string line = std::fgets(text, sizeof(text), file) == nullptr ? "" : text;
  return line.substr(0, line.find('\n'));
}

}  // namespace

// addr2line prints two lines for an address: the function, and "file:line (discriminator ...)".
std::vector<CodePlace> places_of(const std::vector<const void*>& code) {
  std::string command = fmt::format("addr2line -C -f -e /proc/{}/exe", getpid());
  for (const void* address : code) {
    command += fmt::format(" {:#x}", reinterpret_cast<uintptr_t>(address) - load_address());
  }
  std::vector<CodePlace> places(code.size());
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(popen(command.c_str(), "r"), pclose);
  for (CodePlace& place : places) {
    if (output == nullptr) {
      break;
    }
    place.function = line_of(output.get());
    place.file = line_of(output.get());
    if (const size_t colon = place.file.rfind(':'); colon != std::string::npos) {
      place.line = std::atoi(place.file.c_str() + colon + 1);
      place.file.resize(colon);
    }
  }
  return places;
}

}  // namespace cuda_shim
