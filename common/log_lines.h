// Lines of a log get the name of their event, which stays the same while numbers and names in the
// text vary; a form, as text or as one JSON object a line; and a limit for each event, so that an
// event that repeats thousands of times does not hide the rest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace paracord {

inline constexpr char kNoEvent[] = "line";

// Names the event of a line by the format that it is written with, or else by its text: the first
// words that stand together and do not vary (a replacement field, or what has a digit, quote, slash
// or colon inside, does), at most five: "joined_session" of "joined: session {}, generation {}",
// "is_away" of "{} is away"; "line" without any. Programs may rely on it.
std::string EventOf(std::string_view text);

// {"ts": ..., "level": ..., "task": ..., "event": ..., "peer": ..., "address": ..., "reason": ...,
// "msg": ...}, without an end of line. `fields` is "name\x1fvalue\x1e" for each of kLogFields that
// the line has.
std::string JsonLine(int64_t unix_ms, std::string_view level, std::string_view task,
                     std::string_view event, std::string_view fields, std::string_view text);

// Lets kPerSecond lines of each event pass in a second. Used on one thread at a time.
class EventLimit {
 public:
  static constexpr uint32_t kPerSecond = 50;

  struct Verdict {
    bool pass = true;
    uint64_t left_out = 0;  // of this event before this line, in an earlier second
  };
  Verdict Take(const std::string& event, int64_t unix_ms);

 private:
  // Events share a place if their hashes meet: memory is bounded whatever the lines say.
  struct Place {
    int64_t second = 0;
    uint32_t lines = 0;
    uint64_t left_out = 0;
  };
  std::array<Place, 512> places_;
};

}  // namespace paracord
