// Device collectives over NCCL, between GPUs, without the host.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/watchdog.h"
#include "core/version.h"

namespace hidup {

struct NcclOptions {
  int max_ctas = 0;               // thread blocks that a collective may take; 0: NCCL decides
  bool register_buffers = false;  // register_memory() registers memory
  bool alone = false;             // groups of one rank use NCCL, too: for tests with one GPU
};

// Returns true in binaries for CUDA, which have NCCL.
bool has_nccl();

// Returns NCCL's versions; nothing if the binary lacks NCCL.
std::vector<LibraryVersion> nccl_libraries();

// Returns the group `host` with its device collectives over NCCL; host collectives stay those of
// `host`. Collective. Each rank has a GPU of its own, which its make_device() took last. The first
// rank makes NCCL's unique id. `name`: for people. The watchdog outlives the group.
//
// A group initializes NCCL by itself instead of splitting a group of all ranks: the world
// communicates nothing on the device, so NCCL's buffers and connections for it would serve nobody.
// Groups of one rank do not use NCCL, unless options.alone.
//
// Throws Error(communication) with NCCL's reason, and Error(unavailable) where has_nccl() is false.
// Errors in collectives end all ranks through the watchdog.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> host,
                                                     const std::string& name, int world_rank,
                                                     const NcclOptions& options,
                                                     Watchdog& watchdog);

}  // namespace hidup
