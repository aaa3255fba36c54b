// Lets a program take the time that it would take on another cluster, while it computes for real.
//
// Emulated times are nanoseconds since the run's start, undilated. An instruction starts when its
// stream is free, what it waits for has ended and, where it is a collective, when the last rank of
// its group comes; it ends when the cost model says. Nothing that this machine does changes them:
// events and meetings of ranks carry them along. The streams only pace themselves by them.
//
// An event carries its emulated end and is signalled as soon as the data are there. Then the
// stream sleeps until that end, times the dilation. All of it is half a step ahead of its time, so
// that a rank may compute for a while more slowly than the device that it stands for. All ranks
// put their clocks off together after a pause, such as a checkpoint.
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

// What things take there. It never says when they start: that follows from the waits.
struct EmulatedTimes {
  // When this rank's instruction ends that starts then; a collective, with its group.
  std::function<Nanoseconds(int instruction, Nanoseconds start)> end_of;
  Nanoseconds launch = 0;    // between two instructions of a stream
  Nanoseconds signal = 0;    // from an end to the start of what waits for it in the other stream
  Nanoseconds overhead = 0;  // between the last end of a step and the next one's start
};

struct EmulatorOptions {
  double dilation = 1.0;         // seconds of this machine's per emulated second
  double clock_start = 0.0;      // run_start() of this rank; hosts have clocks of their own
  std::function<bool()> failed;  // whether this rank's work failed: it must not wait then
};

// A step that ended. Times of this machine are marked so.
struct EmulatedStep {
  Nanoseconds start = 0;
  Nanoseconds next = 0;   // start of the next one, the same on all ranks
  Nanoseconds moved = 0;  // this machine's: by so much it was put off before, because of a pause
  Nanoseconds wall = 0;   // this machine's: since the step before was done, or the pause behind it
  int64_t late = 0;       // instructions of this rank that were done after their emulated end
};

// Of one rank. The executor calls it; all ranks' do so in the same steps.
class Emulator {
 public:
  // Collective. `program` and `world` outlive it.
  Emulator(const Program& program, Communicator& world, EmulatedTimes times,
           EmulatorOptions options);
  // While an exception unwinds: the other ranks wait no more.
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  // On the thread that gives the step to the streams, before its first instruction, and when the
  // streams are done.
  void begin_step();
  void end_step();

  // In the instruction's stream: before its work (`behind`: an instruction that it waits for beside
  // its waits, or -1); after its work, before the event of its end; and after that event.
  void begin(int instruction, int behind);
  void finish(int instruction);
  void pace(int instruction);

  // Of the step that ended last: when every instruction of this rank ran; and the same as seconds.
  std::span<const Nanoseconds> starts() const { return starts_; }
  std::span<const Nanoseconds> ends() const { return ends_; }
  std::vector<Interval> intervals() const;
  const EmulatedStep& step() const { return step_; }

 private:
  struct StreamState {
    Nanoseconds end = 0;  // of its last instruction
    bool began = false;   // in this step
    int64_t late = 0;
  };

  void find_rows(Communicator& world);
  StreamState& stream_of(int instruction);
  // This machine's clock at that emulated time.
  Nanoseconds due(Nanoseconds emulated) const;
  Nanoseconds largest(Nanoseconds mine);
  Nanoseconds pause() const;

  const Program& program_;
  int64_t rank_;
  EmulatedTimes times_;
  EmulatorOptions options_;
  int unwinding_;  // exceptions, when it was made
  Nanoseconds ahead_;
  std::vector<int> rows_;  // of the board, by instruction; -1: it waits for no rank
  std::unique_ptr<Board> board_;
  std::array<StreamState, kStreams> streams_;
  std::vector<Nanoseconds> starts_;
  std::vector<Nanoseconds> ends_;
  Nanoseconds epoch_ = 0;  // this machine's clock at emulated time 0
  Nanoseconds ended_ = 0;  // likewise, when the last step was done
  Nanoseconds began_ = 0;  // likewise, when the running one began to count
  int64_t steps_ = 0;
  EmulatedStep step_;
};

}  // namespace hidup
