#include <algorithm>

#include "comm/communicator.h"
#include "comm/counts.h"
#include "core/check.h"

namespace hidup {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  bool through_host() const override { return false; }

  void all_reduce(Stream&, void*, int64_t, DType, CollectiveAlgorithm,
                  const std::string&) override {}

  void all_gather(Stream& stream, const void* send, void* receive,
                  const std::vector<int64_t>& counts, DType dtype, CollectiveAlgorithm,
                  const std::string& name) override {
    check_counts(counts, 1, "all_gather of " + name);
    copy_elements(stream, receive, send, counts[0], dtype);
  }

  void reduce_scatter(Stream& stream, const void* send, void* receive,
                      const std::vector<int64_t>& counts, DType dtype, CollectiveAlgorithm,
                      const std::string& name) override {
    check_counts(counts, 1, "reduce_scatter of " + name);
    copy_elements(stream, receive, send, counts[0], dtype);
  }

  void all_to_all(Stream& stream, const void* send, const std::vector<int64_t>& send_counts,
                  void* receive, const std::vector<int64_t>& receive_counts, DType dtype,
                  CollectiveAlgorithm, const std::string& name) override {
    check_counts(send_counts, 1, "all_to_all of " + name);
    check(send_counts == receive_counts, "all_to_all of {}: a rank's own counts differ", name);
    copy_elements(stream, receive, send, send_counts[0], dtype);
  }

  void broadcast(Stream&, void*, int64_t, int, DType, const std::string&) override {}
  void move(Stream&, const void*, void*, int64_t, const std::vector<int>& sources, DType,
            const std::string& name) override {
    move_part(sources, 0, 1, "move of " + name);
  }

  void barrier() override {}
  std::string broadcast(const std::string& text) override { return text; }
  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    return {mine.begin(), mine.end()};
  }
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) override {
    return {{mine.begin(), mine.end()}};
  }
  void exchange(std::span<const std::byte> send, const std::vector<int64_t>& send_counts,
                std::span<std::byte> receive, const std::vector<int64_t>& receive_counts) override {
    check_counts(send_counts, 1, "exchange");
    check(send_counts == receive_counts, "exchange: a rank's own counts differ");
    std::ranges::copy(send, receive.begin());
  }
  std::unique_ptr<Communicator> split(int64_t) override { return make_self_communicator(); }
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

}  // namespace hidup
