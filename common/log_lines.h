// Formats log lines as JSON; gives each line the name of its event, which is made of the line's
// constant words, without numbers and names; and limits how many lines of an event are written, so
// that an event that is repeated thousands of times does not hide other events.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace paracord {

inline constexpr char kNoEvent[] = "line";

// Returns the name of the event of a line. `text` is the line's format or, if there is no format,
// the line. The name is the first run of at most five constant words, in lower case:
// "joined_session" for "joined: session {}, generation {}", "is_away" for "{} is away". A constant
// word consists of ASCII letters, "-", "'", "_" and ".", and may have punctuation behind it. The
// run ends earlier behind a colon, semicolon or full stop that follows its second, third or fourth
// word. The name is "line" if there is no constant word. Programs may rely on the names.
std::string EventOf(std::string_view text);

// Returns {"ts": ..., "level": ..., "task": ..., "event": ..., "peer": ..., "address": ...,
// "reason": ..., "msg": ...}, without an end of line. `fields` has "name\x1fvalue\x1e" for each of
// the kLogFields that the line has; the result lacks the others.
std::string JsonLine(int64_t unix_ms, std::string_view level, std::string_view task,
                     std::string_view event, std::string_view fields, std::string_view text);

// Lets at most kPerSecond lines of an event pass in a second. Used by one thread at a time.
class EventLimit {
 public:
  static constexpr uint32_t kPerSecond = 50;

  struct Verdict {
    bool pass = true;
    // How many lines were left out before this second and are in no earlier Verdict.
    uint64_t left_out = 0;
  };
  Verdict Take(const std::string& event, int64_t unix_ms);

 private:
  // Some events share a place, so that the memory is bounded whatever the lines say.
  struct Place {
    int64_t second = 0;
    uint32_t lines = 0;
    uint64_t left_out = 0;
  };
  std::array<Place, 512> places_;
};

}  // namespace paracord
