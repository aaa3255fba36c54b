// timing_writer FILE: writes a run of one step per millisecond until it is killed (or for a
// minute). Prints "flushed STEP" after each flush.
#include <chrono>
#include <cstdio>
#include <thread>

#include "sample.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: timing_writer FILE\n");
    return 2;
  }
  hidup::TimingFile file(argv[1], /*overwrite=*/false, hidup::sample::header());
  for (int64_t step = 1; step <= 60'000; ++step) {
    hidup::sample::append(file, step);
    if (step % 50 == 0) {
      file.flush();
      std::printf("flushed %lld\n", static_cast<long long>(step));
      std::fflush(stdout);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  file.close();
  return 0;
}
