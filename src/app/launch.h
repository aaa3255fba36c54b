// The start of a job: what its ranks have in common, and how they differ. mpirun may start several
// builds in one job, such as one for GPUs and one for CPUs. Everything here is collective.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace hidup {

// Returns the ranks for which `mine` is true, on every rank.
std::vector<int> ranks_where(Communicator& world, bool mine);

// Returns on rank 0 the text that all ranks give, or else each distinct one with its ranks: "NVIDIA
// H200 (rank 0), AMD EPYC (ranks 1-4)". Leaves out empty texts. Returns "" on the other ranks.
std::string text_of_ranks(Communicator& world, const std::string& mine);

// Returns what text_of_ranks() returns for the texts of all ranks, in rank order.
std::string text_of_ranks(const std::vector<std::string>& texts);

// Returns on rank 0 the lines of all ranks, each once, in the order of ranks; nothing on the
// others.
std::vector<std::string> lines_of_ranks(Communicator& world, const std::vector<std::string>& mine);

// Names the sources of a program: "0.1.0 4f3a... with changes". Builds of the same ones, such as
// for GPUs and for CPUs, have the same name.
std::string build_name(const std::string& version, const std::string& commit, bool dirty);
std::string version_text();  // of this program

// Throws CollectiveError(usage) where a rank has other arguments than rank 0. `arguments`: those of
// the command line, without the program, which ranks of several builds start by its own name.
void check_same_arguments(Communicator& world, std::span<char* const> arguments);

// Throws CollectiveError(usage) where a rank runs another version than rank 0, which might choose
// other collectives. `version`: version_text() of this rank.
void check_same_version(Communicator& world, const std::string& version);

}  // namespace hidup
