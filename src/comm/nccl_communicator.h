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
  bool register_buffers = false;  // register_memory() does something
  bool alone = false;             // groups of one rank use NCCL, too: for tests with one GPU
};

// Whether this binary has NCCL: one for CUDA has.
bool has_nccl();

// NCCL's versions; nothing where the binary does not have it.
std::vector<LibraryVersion> nccl_libraries();

// The group `host`, with its device collectives over NCCL; host collectives stay those of `host`.
// Collective; each rank has a GPU of its own, the one that its make_device() took last. NCCL's
// unique id is made by the group's first rank. `name`: what people call the group. The watchdog
// outlives it.
//
// A group starts NCCL by itself instead of being split from one of all ranks: nothing is sent
// within the world on the device, so NCCL's buffers and connections for it would serve nobody.
// Groups of one rank do without NCCL, unless options.alone.
//
// Throws Error(communication) with NCCL's reason, Error(unavailable) where has_nccl() is false.
// Errors in collectives end all ranks, by the watchdog.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> host,
                                                     const std::string& name, int world_rank,
                                                     const NcclOptions& options,
                                                     Watchdog& watchdog);

}  // namespace hidup
