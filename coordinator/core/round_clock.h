// Measures when the round under way began and how long a round takes: the time between two steps of
// the lane that is furthest behind. Pure; owned by LaneLeases.
//
// Invariant: a rest between two epochs is not part of any round.
#pragma once

#include <cstdint>
#include <optional>

namespace paracord {

class RoundClock {
 public:
  // An epoch begins or resumes; the lane that is furthest behind is at round `least`.
  void Begin(uint32_t least, int64_t now_ms);
  // The lane that is furthest behind is at round `least`.
  void Note(uint32_t least, int64_t now_ms);

  // When the round under way began.
  int64_t began_ms() const { return began_ms_; }
  // The usual time of a round, a mean weighted towards the newest; nullopt before the first.
  std::optional<double> usual_ms() const { return usual_ms_; }

 private:
  uint32_t least_ = 0;
  int64_t began_ms_ = 0;
  std::optional<double> usual_ms_;
};

}  // namespace paracord
