// When the round under way began, and how long a round takes: the time between two moments at which
// the lane that is the furthest behind comes further. Pure; owned by LaneLeases.
//
// Invariant: a rest between two epochs counts for no round.
#pragma once

#include <cstdint>
#include <optional>

namespace paracord {

class RoundClock {
 public:
  // An epoch begins, or goes on after a rest, with its furthest lane behind at round `least`.
  void Begin(uint32_t least, int64_t now_ms);
  // The furthest lane behind is at round `least`.
  void Note(uint32_t least, int64_t now_ms);

  // When the round under way began.
  int64_t began_ms() const { return began_ms_; }
  // A mean of the rounds so far in which the newest ones count most; nullopt before the first.
  std::optional<double> usual_ms() const { return usual_ms_; }

 private:
  uint32_t least_ = 0;
  int64_t began_ms_ = 0;
  std::optional<double> usual_ms_;
};

}  // namespace paracord
