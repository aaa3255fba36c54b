// The timing file: the description of a run and the times of every step.
//
// It is HDF5, written by rank 0, and readable while it grows and after a kill (SWMR:
// h5py.File(name, 'r', swmr=True)). Every dataset has a text attribute `unit`: "s", "bytes",
// "flop", "tokens", "nat", "1" for other numbers, "" for text.
//
//   /input/{model_deck,cluster_deck,resolved}, /strategy/text, /program/text   scalar text
//   /strategy attributes: name, hash, search_s; floor_s (least computing time of a step on a rank)
//     where the profile has rates; predicted_{iteration_s,compute_s,comm_s,exposed_comm_s} and
//     predicted_peak_bytes where there is a prediction
//   /iterations/{step,wall_s,loss,tokens,lr,grad_norm,skipped}                 [n]
//   /iterations/{balance_loss,z_loss}                                          [n]
//   /validation/{step,loss}                                                    [m]
//   /ranks/{compute_s,comm_s,exposed_comm_s}                                   [n, world]
//     (RunBusyTimes makes a run's printed times and overlap ratio of them)
//   /ranks/idle_s                                                              [n, world]
//   /ranks/{peak_bytes,parameter_bytes}                                        [world]
//   /program/{name,kind,stream,microbatch,phase,collective,algorithm,flops,bytes}  [instructions]
//   /program/distinct/rank                                                     [ranks]
//   /program/distinct/{flops,bytes}                                [ranks, instructions]
//   /program/{predicted_start_s,predicted_s}     since the step's start     [instructions]
//   /timeline/{step,rank,instruction,start_s,end_s}                            [events]
//   /experts/{tokens,dropped}                          [n, layers with experts, experts]
//   /experts attribute: layers, their number
//   /stragglers/{step,since,rank,cause,slower_by,over}                         [events]
//   /stragglers attribute: causes, their names
//   /adapt/{step,last,before_s,after_s,spread_s,kept}                          [trials]
//   /adapt/shares                                                              [trials, world]
//   /adapt/shares_at_start                                                     [world]
//   /emulation/late_instructions                                               [n, world]
//   /emulation/{wall_s,moved_s}                                                [n]
//   /emulation attribute: dilation, wall time over emulated time
//
// skipped is 1 where the gradients were not finite and the update did nothing, else 0. balance_loss
// and z_loss exist only where they have a weight: the routers' own losses in the step, without the
// weight, summed over the layers. /validation exists only with validation data: the mean loss over
// all of it after the step's update.
//
// idle_s exists only with a pipeline: the time in which a rank neither computed nor communicated
// inside of its stage.
//
// flops and bytes are those of the first rank. /program/distinct exists only if ranks have parts of
// unequal sizes. It describes ranks that stand for all: every other rank has the parts of one of
// them, up to one element.
//
// A run that goes on from a checkpoint of another one has two more root attributes: continued_from,
// the timing file of that run, relative to the folder of this one, and continued_at_step, the last
// step of that run that counts. Both files together are the whole training.
//
// Runs on images also have /iterations/accuracy [n] and /validation/accuracy [m], the fraction of
// the targets that have the largest logit. tokens then counts the patches and the class tokens.
//
// /experts exists only if the model has experts. tokens counts the choices of an expert in the
// step's batch on all ranks; dropped counts the choices that found no slot.
//
// /stragglers exists only with several ranks. A row says that at the end of the step a rank was
// found slow since an earlier step, by which part of the usual time, and in which operations; or,
// where over is 1, that it has its usual pace again. Where messages are slow, every rank of their
// group has a row.
//
// /adapt exists only with train.adapt. A row is a change that was tried: the first step with it,
// the last one that was measured, the medians of the steps before and after, the spread of those
// before, and 0 where it was undone. shares has the part of the flops of all ranks that each one
// computes with the change.
//
// /emulation exists only where the ranks emulated the cluster of the deck. All other times are then
// emulated ones, /timeline since the emulated start of the run. late_instructions counts
// instructions that were done after their emulated end; wall_s is the step's time on this machine,
// and moved_s the time by which a pause delayed emulated time before the step, both in seconds of
// this machine.
//
// Numbers are int64 or float64, text is UTF-8. All arrays are chunked and can grow.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hidup {

inline constexpr int64_t kTimingFormatVersion = 1;

// Root attributes, named as the members.
struct RunAttributes {
  std::string program_version;
  std::string git_commit;
  bool git_dirty = false;  // stored as 0 or 1
  std::string command_line;
  std::string started_at;  // ISO 8601, UTC
  std::string model;       // the model deck's name, for titles
  int64_t world_size = 1;
  std::string device;  // "A (rank 0), B (ranks 1-4)" where ranks have several kinds
  std::vector<std::string> hostnames;
  std::string mpi_ranks;  // "0 2 1 3": mpirun's numbers of ranks that have others; absent if empty
  std::vector<std::string> libraries;     // "name version", as loaded
  std::string arithmetic;                 // of CPU kernels, for readers; absent if empty
  std::vector<std::string> environment;   // "KEY=value"
  std::optional<double> unigram_entropy;  // nats per target of the data; absent if unknown
  // The timing file that this one continues, as a path that can be opened now, and its last step
  // that counts; absent if the run began with step 1.
  std::optional<std::string> continued_from;
  std::optional<int64_t> continued_at_step;
};

struct InputInfo {
  std::string model_deck;    // as read
  std::string cluster_deck;  // as read
  std::string resolved;      // with all values
};

struct StrategyInfo {
  std::string name;
  std::string hash;
  std::string text;       // the strategy file
  double search_s = 0.0;  // 0: the strategy was not searched for
  double floor_s = 0.0;   // least computing time of a step; 0: not known
};

// An instruction, in the words of the program's text.
struct ProgramRow {
  std::string name;
  std::string kind;         // compute, collective, local
  std::string stream;       // compute, comm
  int64_t microbatch = -1;  // -1: no microbatch
  std::string phase;        // forward, backward, update
  std::string collective;   // all_reduce, all_gather, ...; empty for other kinds
  // Algorithm of a collective: automatic, ring, windows, ..., flat, or hierarchical with those of
  // its parts unless all are automatic. Older files have none.
  std::string algorithm = {};
  int64_t flops = 0;  // on the first rank
  int64_t bytes = 0;
};

// Flops and bytes of the instructions on one rank, [instructions].
struct RankWork {
  int64_t rank = 0;
  std::vector<int64_t> flops;
  std::vector<int64_t> bytes;
};

struct ProgramInfo {
  std::string text;
  std::vector<ProgramRow> rows;
  std::vector<RankWork> distinct;  // ranks that stand for all; empty: all ranks are alike
};

// The predicted times and memory of a step on the busiest rank.
struct PredictionInfo {
  double iteration_s = 0.0;
  double compute_s = 0.0;
  double comm_s = 0.0;
  double exposed_comm_s = 0.0;
  int64_t peak_bytes = 0;
  std::vector<double> start_s;   // starts of instructions since the step's start
  std::vector<double> length_s;  // predicted lengths of instructions
};

// Memory by rank, [world_size].
struct RankMemory {
  std::vector<int64_t> peak_bytes;
  std::vector<int64_t> parameter_bytes;
};

// The number of layers with experts, and of the experts of the largest such layer.
struct ExpertLayers {
  int64_t layers = 0;  // 0: the model has no experts
  int64_t experts = 0;
  bool balance_loss = false;  // routers have a balance loss
  bool z_loss = false;        // routers have a z loss
};

// Loads, [layers, experts]; 0 for experts that a layer lacks. Empty if the model has no experts.
struct ExpertLoads {
  std::span<const int64_t> tokens;   // tokens that chose the expert
  std::span<const int64_t> dropped;  // tokens that found no slot
};

// The emulation of times.
struct EmulationInfo {
  double dilation = 1.0;  // wall time over emulated time
};

// All content that is known before the first step.
struct TimingHeader {
  RunAttributes run;
  InputInfo inputs;
  StrategyInfo strategy;
  ProgramInfo program;
  std::optional<PredictionInfo> prediction;
  RankMemory memory;
  ExpertLayers experts;
  bool validation = false;  // the run has validation data
  bool images = false;      // the data are images
  bool pipeline = false;    // the strategy has a schedule
  // Names of the causes of slowness; empty: ranks are not compared.
  std::vector<std::string> causes;
  // The part of the flops of all ranks that each one computes; empty: the run does not adapt.
  std::vector<double> shares;
  std::optional<EmulationInfo> emulation;
};

// Busy times in a step, one value per rank (cost/busy.h).
struct RankTimes {
  std::span<const double> compute_s, comm_s, exposed_comm_s;
  std::span<const double> idle_s = {};  // counts where the header has a pipeline
};

struct Iteration {
  int64_t step = 0;
  double wall_s = 0;  // from the start of this step to the start of the next
  double loss = 0;    // mean cross-entropy per target, nats
  double accuracy = 0;
  int64_t tokens = 0;
  double lr = 0;
  double grad_norm = 0;
  bool skipped = false;     // the update did nothing
  double balance_loss = 0;  // without its weight; where ExpertLayers has one
  double z_loss = 0;        // without its weight, too
};

// A step's times on this machine, where the run's times are emulated.
struct EmulatedIteration {
  double wall_s = 0.0;            // from its start to the start of the next
  double moved_s = 0.0;           // delay by a pause
  std::span<const int64_t> late;  // [world] instructions done after their emulated end
};

struct ValidationRow {
  int64_t step = 0;
  double loss = 0;  // mean cross-entropy per target, nats
  double accuracy = 0;
};

struct TimelineRow {
  int64_t step = 0;
  int64_t rank = 0;
  int64_t instruction = 0;  // row of /program
  double start_s = 0;       // since the run's start
  double end_s = 0;
};

// A rank that became slow, or has its usual pace again.
struct StragglerRow {
  int64_t step = 0;   // at whose end it was found
  int64_t since = 0;  // first step
  int64_t rank = 0;
  int64_t cause = 0;       // index in TimingHeader::causes
  double slower_by = 0.0;  // excess over the usual time, as a part of it; 0 if over
  bool over = false;
};

// A change of the shares that was tried.
struct AdaptRow {
  int64_t step = 0;       // the first one with the change
  int64_t last = 0;       // the last one that was measured
  double before_s = 0.0;  // medians of steps
  double after_s = 0.0;
  double spread_s = 0.0;  // of the steps before
  bool kept = false;
  std::vector<double> shares = {};  // [world]
};

// Writes a timing file. Rows wait in memory, and a thread of the file writes them half a second
// after the previous time, or at once where that is longer ago. So a row never waits long for a
// reader, however long the next step takes, and no step waits for the file system.
//
// A write that fails (a full disk) stops the writing; the next call of any member throws its
// Error(file). Rows that were written before stay readable.
class TimingFile {
 public:
  // Writes the header, lets readers in and gives the file its name (NewFile::take_name()).
  TimingFile(const std::string& path, bool overwrite, const TimingHeader& header);
  TimingFile(const TimingFile&) = delete;
  TimingFile& operator=(const TimingFile&) = delete;
  // Closes the file unless close() did, and logs errors.
  ~TimingFile();

  // Appends steps, which must ascend. `emulated` counts where the header has an emulation.
  void append_iteration(const Iteration& iteration, const RankTimes& times,
                        const ExpertLoads& loads, const EmulatedIteration& emulated = {});

  // Appends the loss after a step; steps must ascend. Only for headers with validation data.
  void append_validation(const ValidationRow& row);

  // Appends rows in any order, of steps that are not before those of earlier calls.
  void append_timeline(std::span<const TimelineRow> rows);

  // Appends rows of one step; steps must not descend. Only for headers with causes.
  void append_stragglers(std::span<const StragglerRow> rows);

  // Appends a change that was tried. Only for headers with shares.
  void append_adapt(const AdaptRow& row);

  // Returns when all rows so far are in the file.
  void flush();

  // Waits, in any thread, until the row of the step is appended, and it and all before it are on
  // the disk. Returns at once where the file has failed; the next call of another member throws.
  void wait_for_step(int64_t step);

  // Writes the rest and closes the file. Nothing may be appended after it. Throws Error(file), too,
  // where the file lost its name (NewFile::check_name()).
  void close();

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace hidup
