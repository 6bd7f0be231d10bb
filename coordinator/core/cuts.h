// Cuts: in synchronous training a checkpoint holds all partitions at one state, the cut. The
// coordinator orders a cut before any partition reaches that state, so no ps waits for another. A
// ps that is already past the state answers OUT_OF_RANGE, which ends the checkpoint round; the next
// cut is ordered twice as far ahead. Owned by the core. Does no I/O and reads no clock.
#pragma once

#include <cstdint>
#include <optional>

namespace paracord {

// The inputs to the choice of a cut. A state is the number of rounds that a partition has applied
// since the job began.
struct CutView {
  // The greatest state of any partition; at a planned end, as the ps have just reported.
  uint64_t greatest = 0;
  uint64_t end = 0;  // the last state of the open epoch, or of the job
  double rounds_a_second = 0;
  bool planned_end = false;  // the job is drained or has failed, a ps leaves, or partitions move
  // During a move, after which training goes on: the state that workers reach with their present
  // leases. nullopt: there is no move.
  std::optional<uint64_t> rest = std::nullopt;
};

class Cuts {
 public:
  // Returns the state of the next cut. In ordinary training the cut is beyond `greatest` by two
  // rounds and the rounds of one second, which gives the order time to arrive, but at most at
  // `end`, where an evaluation or the last checkpoint waits. At a planned end no further state may
  // follow, so the cut is at `greatest`; outstanding leases bring the other partitions up to it.
  // For a move the cut is at `rest`: workers whose leases reach further would train on, and compute
  // those rounds again after the move.
  uint64_t Order(const CutView& view) const;
  // Whether a cut at state `ordered` is to be abandoned: at a planned end training may not reach
  // that state, or for a move training does not rest there.
  static bool IsVoid(uint64_t ordered, const CutView& view) {
    if (!view.planned_end) return false;
    return view.rest.has_value() ? ordered != *view.rest : ordered > view.greatest;
  }
  // A ps was already past the cut. True if the next cut may be ordered at once, further ahead;
  // false after 20 late orders in a row.
  bool OutOfRange();
  // All partitions have reached the cut and copied their values.
  void Taken() { late_ = 0; }

 private:
  uint32_t late_ = 0;  // orders in a row that came too late
};

}  // namespace paracord
