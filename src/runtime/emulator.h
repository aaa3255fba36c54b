// Makes a program take the time that it would take on another cluster, while it computes real data.
//
// Emulated times are nanoseconds since the run's start, before dilation. An instruction starts when
// its stream is free, the instructions that it waits for have ended and, for a collective, the last
// rank of its group arrives. It ends when the cost model says. The speed of this machine changes no
// emulated time: events and meetings of ranks carry the times along, and streams pace themselves.
//
// An event carries its emulated end and is signalled as soon as the data are there. Then the stream
// sleeps until that end, times the dilation. All of it runs half a step ahead of its time, so that
// a rank may compute for a while more slowly than the emulated device. All ranks put their clocks
// off together after a pause, such as a checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/board.h"
#include "core/units.h"
#include "cost/busy.h"
#include "program/program.h"

namespace hidup {

// Durations on the emulated cluster. Start times follow from the waits.
struct EmulatedTimes {
  // Returns the end of this rank's instruction if it (or its group, for a collective) starts then.
  std::function<Nanoseconds(int instruction, Nanoseconds start)> end_of;
  Nanoseconds launch = 0;    // between two instructions of a stream
  Nanoseconds signal = 0;    // from an end to a start in another stream that waits for it
  Nanoseconds overhead = 0;  // from the last end of a step to the start of the next step
};

struct EmulatorOptions {
  double dilation = 1.0;         // seconds of this machine per emulated second
  double clock_start = 0.0;      // run_start() of this rank; every host has its own clock
  Nanoseconds begin = 0;         // the emulated start of the first step
  std::function<bool()> failed;  // true once this rank's work failed; it must not wait then
};

// A step that ended. Times are emulated unless a comment says "real", for times of this machine.
struct EmulatedStep {
  Nanoseconds start = 0;
  Nanoseconds next = 0;   // start of the next step, the same on all ranks
  Nanoseconds moved = 0;  // real: delay of this step because of a pause before it
  Nanoseconds wall = 0;   // real: time since the end of the step before, or of the pause after it
  int64_t late = 0;       // instructions of this rank that finished after their emulated end
};

// The emulator of one rank. The executors of all ranks call theirs in the same steps.
class Emulator {
 public:
  // Collective. `program` and `world` outlive it.
  Emulator(const Program& program, Communicator& world, EmulatedTimes times,
           EmulatorOptions options);
  // Releases the ranks that wait for this one if an exception unwinds the stack.
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  // Begin and end a step. The thread that issues the step calls begin_step() before the first
  // instruction, and end_step() when the streams are done.
  void begin_step();
  void end_step();

  // The instruction's stream calls begin() before the work, finish() between the work and the end
  // event, and pace() after that event. `behind`: an awaited instruction outside its waits, or -1.
  void begin(int instruction, int behind);
  void finish(int instruction);
  void pace(int instruction);

  // Return when this rank's instructions ran in the last ended step; intervals() is in seconds.
  std::span<const Nanoseconds> starts() const { return starts_; }
  std::span<const Nanoseconds> ends() const { return ends_; }
  std::vector<Interval> intervals() const;
  const EmulatedStep& step() const { return step_; }

 private:
  struct StreamState {
    Nanoseconds end = 0;  // end of its last instruction
    bool began = false;   // true if an instruction began in this step
    int64_t late = 0;
  };

  void find_rows(Communicator& world);
  StreamState& stream_of(int instruction);
  // Returns this machine's clock at an emulated time.
  Nanoseconds due(Nanoseconds emulated) const;
  Nanoseconds largest(Nanoseconds mine);
  Nanoseconds pause() const;

  const Program& program_;
  int64_t rank_;
  RankSteps rank_steps_;
  EmulatedTimes times_;
  EmulatorOptions options_;
  int unwinding_;  // uncaught exceptions at construction
  Nanoseconds ahead_;
  std::vector<int> rows_;  // board row of each instruction; -1 if it waits for no rank
  std::unique_ptr<Board> board_;
  std::array<StreamState, kStreams> streams_;
  std::vector<Nanoseconds> starts_;
  std::vector<Nanoseconds> ends_;
  Nanoseconds epoch_ = 0;  // this machine's clock at emulated time 0
  Nanoseconds ended_ = 0;  // this machine's clock at the end of the last step
  Nanoseconds began_ = 0;  // this machine's clock from which the running step's `wall` counts
  int64_t steps_ = 0;
  EmulatedStep step_;
};

}  // namespace hidup
