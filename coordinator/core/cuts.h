// Cuts: in synchronous training a checkpoint holds all partitions at one state, the cut. The
// coordinator orders a cut before any partition reaches that state, so no ps waits for another. A
// ps that is already past the state answers OUT_OF_RANGE, which ends the checkpoint round; the next
// cut is ordered twice as far ahead. Owned by the core. Pure: takes a view of the job, reads no
// clock.
#pragma once

#include <cstdint>
#include <optional>

namespace paracord {

// The inputs to the choice of a cut. A state is a count of rounds of the job.
struct CutView {
  uint64_t greatest = 0;  // the greatest state of a partition; at a planned end, freshly read
  uint64_t end = 0;       // the last state of the open epoch, or of the job
  double rounds_a_second = 0;
  bool planned_end = false;  // the job is drained or has failed, a ps leaves, or partitions move
  // During a move, after which training goes on: the state that workers reach with their present
  // leases. nullopt: there is no move.
  std::optional<uint64_t> rest = std::nullopt;
};

class Cuts {
 public:
  // Returns the state of the next cut: as far ahead as the job comes while the order is on its way,
  // but at most `end`, because an evaluation or the last checkpoint waits there. At a planned end
  // no further state may follow, so the cut is at the greatest state of any partition; outstanding
  // leases bring the other partitions up to it. For a move the cut is at `rest`: workers whose
  // leases reach further would train on, and compute those rounds again after the move.
  uint64_t Order(const CutView& view) const;
  // Whether a cut at state `ordered` is to be abandoned: at a planned end training may not reach
  // that state, or for a move training does not rest there.
  static bool IsVoid(uint64_t ordered, const CutView& view) {
    if (!view.planned_end) return false;
    return view.rest.has_value() ? ordered != *view.rest : ordered > view.greatest;
  }
  // A ps was already past the cut. True if the next cut may be ordered at once, further ahead.
  bool OutOfRange();
  // All partitions have reached the cut and copied their values.
  void Taken() { late_ = 0; }

 private:
  uint32_t late_ = 0;  // orders in a row that came too late
};

}  // namespace paracord
