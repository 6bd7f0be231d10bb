// Measures when the round under way began and how long a round takes: the time in which the lane
// that is furthest behind gets one round further. Does no I/O; owned by LaneLeases.
//
// Invariant: the time between two epochs is not part of any round.
#pragma once

#include <cstdint>
#include <optional>

namespace paracord {

class RoundClock {
 public:
  // An epoch begins or goes on; the lane that is furthest behind is at round `least`.
  void Begin(uint32_t least, int64_t now_ms);
  // Takes the round of the lane that is furthest behind, which may be the same as before.
  void Note(uint32_t least, int64_t now_ms);

  // When the lane that is furthest behind got to its present round.
  int64_t began_ms() const { return began_ms_; }
  // The usual time of a round, a mean weighted towards the newest; nullopt before the end of the
  // first round.
  std::optional<double> usual_ms() const { return usual_ms_; }

 private:
  uint32_t least_ = 0;
  int64_t began_ms_ = 0;
  std::optional<double> usual_ms_;
};

}  // namespace paracord
