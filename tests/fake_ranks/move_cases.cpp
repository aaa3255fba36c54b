#include "move_cases.h"

#include <gtest/gtest.h>

#include "case_data.h"
#include "core/check.h"

namespace hidup {

void device_move_is_the_sources(Communicator& world) {
  OwnStream stream;
  std::vector<std::vector<int>> cases;  // from the last rank; every other rank from the one before
  cases.emplace_back(static_cast<size_t>(world.size()), world.size() - 1);
  cases.emplace_back();
  for (int rank = 0; rank < world.size(); ++rank) {
    cases.back().push_back(rank / 2 * 2);
  }
  for (const std::vector<int>& sources : cases) {
    const int source = sources[static_cast<size_t>(world.rank())];
    for (const int64_t count : {0, 1, 1000, 2131, 300001}) {
      std::vector<int32_t> sent = guarded(count);
      std::vector<int32_t> wanted = guarded(count);
      for (int64_t i = 0; i < count; ++i) {
        sent[static_cast<size_t>(i)] = element(world.rank(), 0, i);
        if (source != world.rank()) {
          wanted[static_cast<size_t>(i)] = element(source, 0, i);
        }
      }
      Array<int32_t> send(stream, sent);
      Array<int32_t> receive(stream, guarded(count));
      world.move(*stream, send.data(), receive.data(), count, sources, DType::f32, "data");
      expect_equal(receive.values(), wanted);
    }
  }
  if (world.size() > 1) {
    std::vector<int> circle(static_cast<size_t>(world.size()), 0);
    circle[0] = 1;
    Array<int32_t> data(stream, guarded(1));
    EXPECT_THROW(world.move(*stream, data.data(), data.data(), 1, circle, DType::f32, "data"),
                 Error);
  }
}

}  // namespace hidup
