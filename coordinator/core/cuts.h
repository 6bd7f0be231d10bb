// Cuts: in synchronous training a checkpoint holds all partitions at one state. The coordinator
// orders the state in advance, before any partition reaches it, so no ps waits for another. An
// order that a ps gets too late, OUT_OF_RANGE, ends the checkpoint round, and the next one is
// ordered twice as far ahead. Owned by the core. Pure: takes what is known of the job, reads no
// clock.
#pragma once

#include <cstdint>
#include <optional>

namespace paracord {

// What the coordinator knows when it orders a cut. A state is a count of rounds of the job.
struct CutView {
  uint64_t greatest = 0;  // the greatest state of a partition; at a planned end, as just asked
  uint64_t end = 0;       // last state that the open epoch, or the job, allows
  double rounds_a_second = 0;
  bool planned_end = false;  // the job is drained or has failed, a ps leaves, or partitions move
  // At the planned end of a move, after which training goes on: the state that workers come to
  // without a further lease. nullopt: this is no such end.
  std::optional<uint64_t> rest = std::nullopt;
};

class Cuts {
 public:
  // The state of the next cut: as far ahead as the job comes while the order is on its way, but not
  // behind the end, which an evaluation or the last checkpoint waits for. At a planned end no
  // further state may follow, so the cut is at the greatest state of any partition; outstanding
  // leases bring the remaining partitions up to it. For a move the cut is at `rest`: workers whose
  // leases reach beyond the cut would train on, and compute those rounds again after the move.
  uint64_t Order(const CutView& view) const;
  // Whether a cut that was ordered at this state is to be given up: at a planned end nobody may
  // come so far; or, for a move, training does not rest there.
  static bool IsVoid(uint64_t ordered, const CutView& view) {
    if (!view.planned_end) return false;
    return view.rest.has_value() ? ordered != *view.rest : ordered > view.greatest;
  }
  // A ps was beyond the state that was ordered. True if the next order is further ahead for that,
  // and may follow at once.
  bool OutOfRange();
  // All partitions have taken their images.
  void Taken() { late_ = 0; }

 private:
  uint32_t late_ = 0;  // orders in a row that came too late
};

}  // namespace paracord
