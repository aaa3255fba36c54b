// A base class for ranks that change one collective.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace hidup {

// Does nothing in device collectives; forwards host collectives to `own`.
class ForwardingRank : public Communicator {
 public:
  explicit ForwardingRank(std::unique_ptr<Communicator> own) : own_(std::move(own)) {}

  int rank() const override { return own_->rank(); }
  int size() const override { return own_->size(); }
  void all_reduce(Stream&, void*, int64_t, DType, CollectiveAlgorithm,
                  const std::string&) override {}
  void all_gather(Stream&, const void*, void*, const std::vector<int64_t>&, DType,
                  CollectiveAlgorithm, const std::string&) override {}
  void reduce_scatter(Stream&, const void*, void*, const std::vector<int64_t>&, DType,
                      CollectiveAlgorithm, const std::string&) override {}
  void all_to_all(Stream&, const void*, const std::vector<int64_t>&, void*,
                  const std::vector<int64_t>&, DType, CollectiveAlgorithm,
                  const std::string&) override {}
  void broadcast(Stream&, void*, int64_t, int, DType, const std::string&) override {}
  void move(Stream&, const void*, void*, int64_t, const std::vector<int>&, DType,
            const std::string&) override {}
  void barrier() override { own_->barrier(); }
  std::string broadcast(const std::string& text) override { return own_->broadcast(text); }
  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    return own_->all_gather(mine);
  }
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) override {
    return own_->gather(mine);
  }
  void exchange(std::span<const std::byte> send, const std::vector<int64_t>& send_counts,
                std::span<std::byte> receive, const std::vector<int64_t>& receive_counts) override {
    own_->exchange(send, send_counts, receive, receive_counts);
  }
  std::unique_ptr<Communicator> split(int64_t color) override { return own_->split(color); }

 protected:
  Communicator& own() { return *own_; }

 private:
  std::unique_ptr<Communicator> own_;
};

}  // namespace hidup
