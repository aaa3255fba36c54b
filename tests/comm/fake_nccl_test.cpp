// Calls that the stand-in for NCCL refuses. Run it under mpirun on two ranks or more.
#include <gtest/gtest.h>
#include <mpi.h>
#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "comm/mpi_session.h"

namespace {

int g_rank = 0;
int g_ranks = 1;

ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  for (int tries = 0; state == ncclInProgress && tries < 5000; ++tries) {
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return state;
}

ncclResult_t settled(ncclComm_t comm, ncclResult_t result) {
  return result == ncclInProgress ? state_of(comm) : result;
}

class FakeNccl : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(g_rank), cudaSuccess);
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ASSERT_EQ(ncclCommInitRankConfig(&comm_, g_ranks, id, g_rank, &config), ncclInProgress);
    ASSERT_EQ(state_of(comm_), ncclSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), 400), cudaSuccess);
  }

  void TearDown() override {
    cudaStreamSynchronize(stream_);
    ncclCommAbort(comm_);
    cudaStreamDestroy(stream_);
    EXPECT_EQ(cudaFree(data_), cudaSuccess);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  ncclResult_t all_reduce(const void* send, void* receive, size_t count) {
    return settled(comm_,
                   ncclAllReduce(send, receive, count, ncclFloat32, ncclSum, comm_, stream_));
  }

  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  float* data_ = nullptr;
};

TEST_F(FakeNccl, MemoryOfTheHost) {
  std::vector<float> host(100);
  EXPECT_EQ(all_reduce(host.data(), data_, 100), ncclInvalidArgument);
  EXPECT_EQ(all_reduce(data_, host.data(), 100), ncclInvalidArgument);
  EXPECT_EQ(all_reduce(data_, data_, 101), ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(comm_)).find("not the device's"), std::string::npos);
  EXPECT_EQ(all_reduce(data_, data_, 100), ncclSuccess);
}

TEST_F(FakeNccl, RanksWithOtherCounts) {
  all_reduce(data_, data_, g_rank == 0 ? 100 : 99);  // may return the error already
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(state_of(comm_), ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(comm_)).find("99"), std::string::npos);
}

TEST_F(FakeNccl, RanksWithOtherCollectives) {
  if (g_rank == 0) {
    all_reduce(data_, data_, 10);
  } else {
    settled(comm_, ncclReduceScatter(data_, data_ + 50, 10, ncclFloat32, ncclSum, comm_, stream_));
  }
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(state_of(comm_), ncclInvalidArgument);
}

TEST_F(FakeNccl, SendAndReceiveOfOtherCounts) {
  const int right = (g_rank + 1) % g_ranks;
  const int left = (g_rank + g_ranks - 1) % g_ranks;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclSend(data_, 10, ncclFloat32, right, comm_, stream_), ncclSuccess);
  EXPECT_EQ(ncclRecv(data_ + 50, 11, ncclFloat32, left, comm_, stream_), ncclSuccess);
  settled(comm_, ncclGroupEnd());
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(state_of(comm_), ncclInvalidArgument);
}

TEST_F(FakeNccl, GroupsThatDoNotMatch) {
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclBroadcast(data_, data_, 1000, ncclFloat32, 0, comm_, stream_), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
}

TEST_F(FakeNccl, CallsBeforeTheLastOneIsThrough) {
  EXPECT_EQ(ncclAllReduce(data_, data_, 10, ncclFloat32, ncclSum, comm_, stream_), ncclInProgress);
  EXPECT_EQ(ncclAllReduce(data_, data_, 10, ncclFloat32, ncclSum, comm_, stream_),
            ncclInvalidUsage);
  EXPECT_EQ(state_of(comm_), ncclSuccess);
}

// With the fault hang:call=1 one thread stays in a call forever.
TEST_F(FakeNccl, CallsOfTwoThreads) {
  if (std::getenv("HIDUP_FAKE_NCCL_FAULT") == nullptr) {
    GTEST_SKIP() << "no call hangs";
  }
  std::thread([this] { all_reduce(data_, data_, 10); }).detach();
  ncclResult_t state = ncclSuccess;
  ncclResult_t asked = ncclSuccess;
  for (int tries = 0; asked == ncclSuccess && tries < 5000; ++tries) {
    asked = ncclCommGetAsyncError(comm_, &state);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(asked, ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(comm_)).find("another thread is in ncclAllReduce"),
            std::string::npos);
  EXPECT_EQ(ncclCommAbort(comm_), ncclSuccess);
}

TEST_F(FakeNccl, CallsAfterAbort) {
  EXPECT_EQ(ncclCommAbort(comm_), ncclSuccess);
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(all_reduce(data_, data_, 10), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGetAsyncError(comm_, &state), ncclInvalidArgument);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  hidup::MpiSession mpi(&argc, &argv);
  g_rank = mpi.world().rank();
  g_ranks = mpi.world().size();
  return RUN_ALL_TESTS();
}
