// Cuts: in synchronous training a checkpoint holds all partitions at one state, the cut. The
// coordinator orders a cut before it expects any partition to be past that state, so no ps waits
// for another. A ps that is past the state already answers OUT_OF_RANGE, which ends the checkpoint
// round; the next cut is ordered twice as far ahead. Owned by the core. Does no I/O and reads no
// clock.
#pragma once

#include <cstdint>
#include <optional>

namespace paracord {

// The inputs to the choice of a cut. A state is the number of rounds that a partition has applied
// since the job began.
struct CutView {
  // The greatest state of any partition by reports of ps and workers; at a planned end, of ps
  // alone.
  uint64_t greatest = 0;
  uint64_t end = 0;  // the state at the end of the open epoch; without one, `greatest`
  double rounds_a_second = 0;
  bool planned_end = false;  // the job is drained or has failed, a ps leaves, or partitions move
  // In a pause for a move, after which training goes on: the state that workers reach with their
  // present leases. nullopt: there is no such pause.
  std::optional<uint64_t> rest = std::nullopt;
};

class Cuts {
 public:
  // Returns the state of the next cut. In ordinary training the cut is beyond `greatest` by two
  // rounds and the rounds of one second, which gives the order time to arrive, but at most at
  // `end`, where an evaluation or the last checkpoint waits. At a planned end no further state may
  // follow, so the cut is at `greatest`; outstanding leases bring the other partitions up to it.
  // With `rest` the cut is at `rest`: if it were earlier, the rounds between would be computed
  // again after the move.
  uint64_t Order(const CutView& view) const;
  // Whether a cut at state `ordered` is to be abandoned: at a planned end training may never reach
  // that state; with `rest` training does not stop at that state.
  static bool IsVoid(uint64_t ordered, const CutView& view) {
    if (!view.planned_end) return false;
    return view.rest.has_value() ? ordered != *view.rest : ordered > view.greatest;
  }
  // A ps was past the cut already. True: the next cut may be ordered at once, further ahead. False:
  // 20 orders in a row came too late before this one.
  bool OutOfRange();
  // All partitions have reached the cut and copied their values.
  void Taken() { late_ = 0; }

 private:
  uint32_t late_ = 0;  // orders in a row that came too late
};

}  // namespace paracord
