// Formats log lines, as text or as a JSON object a line. Names the event of each line by its
// constant words, without numbers and names, and limits the lines of each event, to keep an event
// repeated thousands of times from hiding the rest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace paracord {

inline constexpr char kNoEvent[] = "line";

// Names the event of a line by its format or, without a format, by its text: the first run of at
// most five constant words ("joined_session" of "joined: session {}, generation {}", "is_away" of
// "{} is away"). Replacement fields and words with a digit, quote, slash or colon inside are not
// constant. "line" if no word is left. Programs may rely on the names.
std::string EventOf(std::string_view text);

// {"ts": ..., "level": ..., "task": ..., "event": ..., "peer": ..., "address": ..., "reason": ...,
// "msg": ...}, without an end of line. `fields` is "name\x1fvalue\x1e" for each of the line's
// kLogFields.
std::string JsonLine(int64_t unix_ms, std::string_view level, std::string_view task,
                     std::string_view event, std::string_view fields, std::string_view text);

// Lets kPerSecond lines of each event pass in a second. Used on one thread at a time.
class EventLimit {
 public:
  static constexpr uint32_t kPerSecond = 50;

  struct Verdict {
    bool pass = true;
    uint64_t left_out = 0;  // lines of this event left out in an earlier second
  };
  Verdict Take(const std::string& event, int64_t unix_ms);

 private:
  // Events with equal hashes share a place: memory is bounded whatever the lines say.
  struct Place {
    int64_t second = 0;
    uint32_t lines = 0;
    uint64_t left_out = 0;
  };
  std::array<Place, 512> places_;
};

}  // namespace paracord
