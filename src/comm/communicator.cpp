#include "comm/communicator.h"

#include <cstring>
#include <new>

namespace hidup {

std::shared_ptr<std::byte> zeroed_memory(int64_t bytes) {
  constexpr std::align_val_t kLine{64};
  const auto size = static_cast<size_t>(bytes);
  auto* const data = static_cast<std::byte*>(::operator new(size, kLine));
  std::memset(data, 0, size);
  return {data, [](std::byte* memory) { ::operator delete(memory, kLine); }};
}

std::shared_ptr<std::byte> Communicator::share_memory(int64_t bytes) {
  return zeroed_memory(bytes);
}

}  // namespace hidup
