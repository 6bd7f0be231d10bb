// Formats log lines as JSON, names the event of each line by the line's constant words, without
// numbers and names, and limits the lines of each event, to keep an event repeated thousands of
// times from hiding the rest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace paracord {

inline constexpr char kNoEvent[] = "line";

// Names the event of a line by its format or, without a format, by its text: the first run of at
// most five constant words, in lower case ("joined_session" of "joined: session {}, generation {}",
// "is_away" of "{} is away"). A constant word consists of ASCII letters, "-", "'", "_" and ".", and
// may have punctuation behind it. The run also ends behind its second or a later word if a colon,
// semicolon or full stop follows. "line" if there is no constant word. Programs may rely on the
// names.
std::string EventOf(std::string_view text);

// Returns {"ts": ..., "level": ..., "task": ..., "event": ..., "peer": ..., "address": ...,
// "reason": ..., "msg": ...}, without an end of line. `fields` is "name\x1fvalue\x1e" for each of
// kLogFields that the line has.
std::string JsonLine(int64_t unix_ms, std::string_view level, std::string_view task,
                     std::string_view event, std::string_view fields, std::string_view text);

// Lets at most kPerSecond lines of an event pass in a second. Used on one thread at a time.
class EventLimit {
 public:
  static constexpr uint32_t kPerSecond = 50;

  struct Verdict {
    bool pass = true;
    uint64_t left_out = 0;  // told once: lines left out in an earlier second
  };
  Verdict Take(const std::string& event, int64_t unix_ms);

 private:
  // Events whose hashes collide share a place, to bound the memory whatever the lines say.
  struct Place {
    int64_t second = 0;
    uint32_t lines = 0;
    uint64_t left_out = 0;
  };
  std::array<Place, 512> places_;
};

}  // namespace paracord
