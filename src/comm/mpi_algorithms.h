// Collectives made of messages, one function per algorithm. For the sources of this folder only.
//
// Arguments are those of Communicator; `doing` ("all_gather of x") begins the text of an error.
// Each comment gives the bytes that a rank sends and its number of steps (Traffic), where a count
// fits into a chunk. n: ranks; S: bytes of all counts; own: bytes of the rank's count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/elements.h"
#include "comm/mpi_messages.h"

namespace hidup {

// 2 S (n - 1) / n bytes, 2 (n - 1) steps. Blocks travel round the ring twice: block b is summed up
// on its way from rank b + 1 to rank b, and is then spread from there.
void ring_all_reduce(MpiMessages& messages, void* data, int64_t count, const Elements& elements,
                     const std::string& doing);
// S less the next rank's block, n - 1 steps.
void ring_all_gather(MpiMessages& messages, const void* send, void* receive,
                     const std::vector<int64_t>& counts, int64_t bytes, const std::string& doing);
// S - own, n - 1 steps. Block b starts at rank b + 1 and travels round to rank b; every rank on the
// way adds its own part, so the order of the sum is fixed.
void ring_reduce_scatter(MpiMessages& messages, const void* send, void* receive,
                         const std::vector<int64_t>& counts, const Elements& elements,
                         const std::string& doing);

// The next three take ceil(log2(n)) steps, or twice as many, for any n. Before step k of an
// all-gather a rank has the blocks of the 2^k ranks from itself on. It receives as many more, or
// the rest, from the rank 2^k further on. A reduce-scatter runs the same steps backwards. Where n
// is a power of two, bytes and steps equal those of recursive doubling and halving.

// 2 S (n - 1) / n bytes.
void halving_all_reduce(MpiMessages& messages, void* data, int64_t count, const Elements& elements,
                        const std::string& doing);
// S - own if all counts are equal.
void halving_all_gather(MpiMessages& messages, const void* send, void* receive,
                        const std::vector<int64_t>& counts, int64_t bytes,
                        const std::string& doing);
// S - own. Works on copies in n blocks of a bounded size; longer data takes several rounds.
void halving_reduce_scatter(MpiMessages& messages, const void* send, void* receive,
                            const std::vector<int64_t>& counts, const Elements& elements,
                            const std::string& doing);

// Binomial trees to rank 0 and back. A rank exchanges S bytes with each of its children and, unless
// it is rank 0, with its parent, and takes two steps for each of them.
void tree_all_reduce(MpiMessages& messages, void* data, int64_t count, const Elements& elements,
                     const std::string& doing);

// S - own for the pieces that the rank sends, n - 1 steps: step s sends to the rank s further on.
void pairwise_all_to_all(MpiMessages& messages, const void* send,
                         const std::vector<int64_t>& send_counts, void* receive,
                         const std::vector<int64_t>& receive_counts, int64_t bytes,
                         const std::string& doing);
// ceil(log2(n)) steps. A piece for the rank j further on moves 2^k ranks in step k where bit k of j
// is set. For short pieces: a rank stores all pieces that pass through it until the end, and every
// message begins with the lengths of its pieces (8 bytes each), which only their senders know. A
// message of more than 64 KiB takes another step.
void bruck_all_to_all(MpiMessages& messages, const void* send,
                      const std::vector<int64_t>& send_counts, void* receive,
                      const std::vector<int64_t>& receive_counts, int64_t bytes,
                      const std::string& doing);

}  // namespace hidup
