// Calls a function of every library, and prints the library's version or that it works.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <isa-l/crc.h>
#include <mpi.h>
#include <nccl.h>
#include <omp.h>
#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>

extern "C" int mallctl(const char* name, void* old, size_t* size, void* value, size_t length);

namespace {

struct Names {
  MOCK_METHOD(std::string, name, ());
};

TEST(Linked, Mocks) {
  Names names;
  EXPECT_CALL(names, name()).WillOnce(testing::Return("a name"));
  EXPECT_EQ(names.name(), "a name");
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  CLI::App app;
  app.parse(argc, argv);

  int provided = 0;
  int ranks = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const int one = 1;
  MPI_Allreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  fmt::print("MPI: {} ranks, {}\n", ranks,
             provided == MPI_THREAD_MULTIPLE ? "threads" : "no threads");
  MPI_Finalize();

  unsigned major = 0;
  unsigned minor = 0;
  unsigned patch = 0;
  H5get_libversion(&major, &minor, &patch);
  fmt::print("HDF5: {}.{}.{}\n", major, minor, patch);
  const auto crc = crc32_iscsi(reinterpret_cast<unsigned char*>(argv[0]), 1, 0);
  fmt::print("yaml-cpp, JSON, ISA-L: {} {} {:x}\n", YAML::Load("{a: 1}")["a"].as<int>(),
             nlohmann::json::parse("[1, 2]").size(), crc);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  fmt::print("oneDNN: {}.{}\n", dnnl_version()->major, dnnl_version()->minor);
  const char* jemalloc = nullptr;
  size_t size = sizeof jemalloc;
  const int unknown = mallctl("version", &jemalloc, &size, nullptr, 0);
  fmt::print("jemalloc: {}\n", unknown == 0 ? jemalloc : "?");

  int nccl = 0;
  int cuda = 0;
  int devices = 0;
  const auto result = ncclGetVersion(&nccl);
  cudaRuntimeGetVersion(&cuda);
  const auto none = cudaGetDeviceCount(&devices);
  fmt::print("NCCL: {} ({}), cuBLASLt: {}, CUDA: {} ({})\n", nccl, ncclGetErrorString(result),
             cublasLtGetVersion(), cuda, cudaGetErrorString(none));
  return RUN_ALL_TESTS();
}
