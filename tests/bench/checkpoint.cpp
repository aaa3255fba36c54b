// Rates at which ranks write and read a checkpoint, beside dd of the same bytes to the same
// disk, in turn:
//
//   mpirun -n 4 build/tests/bench/bench_checkpoint FOLDER [GB] [repetitions]
//
// Every tensor is f32 [8192, 4096] (134 MB). `rows`: each rank has some tensors' rows; `columns`:
// each rank has pieces of 4 KiB of every row; `replicas`: every rank has all. Reading checks all
// blocks, mostly from the page cache. Built by the target bench_checkpoint.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "comm/mpi_session.h"

namespace hidup {
namespace {

constexpr int64_t kRows = 8192;
constexpr int64_t kColumns = 4096;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns the box of one of `ranks` ranks.
Region box_of(const std::string& layout, int rank, int ranks) {
  Region box{.dims = 2, .extent = {kRows, kColumns}, .global = {kRows, kColumns}};
  if (layout != "replicas") {
    const int d = layout == "rows" ? 0 : 1;
    box.start[d] = box.global[d] * rank / ranks;
    box.extent[d] = box.global[d] * (rank + 1) / ranks - box.start[d];
  }
  return box;
}

// Removes a file and waits for the file system, so that later work need not.
void remove_file(const std::string& path) {
  std::filesystem::remove(path);
  sync();
}

struct Times {
  double write = 0;
  double read = 0;
};

Times save_and_read(Communicator& world, const std::string& folder, size_t tensors,
                    const std::string& layout) {
  const Region box = box_of(layout, world.rank(), world.size());
  std::vector<StoredTensor> stored;
  for (size_t i = 0; i < tensors; ++i) {
    stored.push_back({fmt::format("parameters/{}", i), DType::f32, {kRows, kColumns}});
  }
  std::vector<float> content(static_cast<size_t>(box.elements()));
  for (size_t k = 0; k < content.size(); ++k) {
    content[k] = static_cast<float>(k % 1000003);
  }
  CheckpointWriter writer(world, {.folder = folder, .blocking = true, .stop_on_error = true},
                          stored, std::vector<Region>(tensors, box));
  writer.save({.step = 1}, [&](size_t, int64_t first, int64_t count, std::byte* to) {
    std::memcpy(to, content.data() + first, static_cast<size_t>(count) * sizeof(float));
  });
  const double read = seconds_of([&] {
    const auto file = open_newest(world, folder);
    std::vector<BoxRequest> wanted;
    for (size_t i = 0; i < tensors; ++i) {
      wanted.push_back({i, box, reinterpret_cast<std::byte*>(content.data())});
    }
    read_boxes(world, *file, wanted);
    world.barrier();
  });
  return {writer.last_seconds(), read};
}

void run(Communicator& world, const std::string& folder, double gigabytes, int repetitions) {
  const double tensor_bytes = kRows * kColumns * 4.0;
  const auto tensors = static_cast<size_t>(gigabytes * 1e9 / tensor_bytes + 1);
  const double bytes = tensor_bytes * static_cast<double>(tensors);
  const std::string dd_file = folder + "/dd";
  std::map<std::string, std::vector<double>> ratios;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (const std::string layout : {"rows", "columns", "replicas"}) {
      double dd = 0;
      if (world.rank() == 0) {
        std::filesystem::create_directories(folder);
        const std::string command =
            fmt::format("dd if=/dev/zero of='{}' bs=1M count={} conv=fsync status=none", dd_file,
                        static_cast<int64_t>(bytes) >> 20);
        dd = seconds_of([&] { check(std::system(command.c_str()) == 0, "dd failed"); });
        remove_file(dd_file);
      }
      world.barrier();
      const Times times = save_and_read(world, folder, tensors, layout);
      if (world.rank() == 0) {
        remove_file(folder + "/" + checkpoint_name(1));
        ratios[layout].push_back(dd / times.write);
        fmt::print(
            "{:8} {:.2f} GB: dd {:.2f} s, write {:.2f} s ({:.0f} MB/s, {:.2f} of dd), "
            "read {:.2f} s\n",
            layout, bytes / 1e9, dd, times.write, bytes / times.write / 1e6, dd / times.write,
            times.read);
        std::fflush(stdout);
      }
    }
  }
  for (auto& [layout, all] : ratios) {
    std::ranges::sort(all);
    fmt::print("{:8} median {:.2f} of dd's rate (from {:.2f} to {:.2f})\n", layout,
               all[all.size() / 2], all.front(), all.back());
  }
}

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  hidup::MpiSession mpi(&argc, &argv);
  if (argc < 2) {
    hidup::abort_all_ranks(hidup::ExitCode::usage,
                           "usage: bench_checkpoint FOLDER [GB] [repetitions]");
  }
  hidup::run(mpi.world(), argv[1], argc > 2 ? std::stod(argv[2]) : 1.4,
             argc > 3 ? std::stoi(argv[3]) : 5);
  return 0;
}
