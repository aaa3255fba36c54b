#include "comm/communicator.h"

namespace hidup {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(Stream&, float*, int64_t, const std::string&) override {}
  void barrier() override {}
  std::string broadcast(const std::string& text) override { return text; }
  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    return {mine.begin(), mine.end()};
  }
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) override {
    return {{mine.begin(), mine.end()}};
  }
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

}  // namespace hidup
