// The history of a simulated world: a hash over every event, by which two runs of a seed are
// compared, and the last events in words, for the report of a failure. Owned by the world.
#pragma once

#include <array>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/strings/cord.h"

namespace paracord {

enum class EventKind : uint8_t {
  kWorld,  // of the harness: faults, restarts, checks
  kPost,   // a function posted to a loop
  kTimer,
  kWork,  // on an executor
  kWorkDone,
  kRequest,  // a request arrives at a host
  kHandle,   // ... and at a service
  kReply,
  kFailure,  // a caller learns that its call failed
  kCancel,   // a server learns that its caller went away
  kDeath,
  kFile,  // an operation on a file
};

const char* EventKindName(EventKind kind);

// A hash of our own, since absl::Hash is salted by an address.
uint64_t HashBytes(std::string_view bytes);
uint64_t HashCord(const absl::Cord& bytes);  // of the content, however it is cut

class Trace {
 public:
  // Records an event. `label` must outlive the trace. `detail` is a hash of the bytes that moved,
  // or a number.
  void Record(int64_t time_us, EventKind kind, uint32_t node, const char* label, uint64_t detail);

  uint64_t hash() const { return hash_; }
  uint64_t events() const { return events_; }
  // Writes every event from now on as a line of text, so that diff can compare two runs.
  void WriteTo(std::ostream* out) { out_ = out; }
  std::string Last(uint64_t count) const;

 private:
  struct Line {
    int64_t time_us;
    EventKind kind;
    uint32_t node;
    const char* label;
    uint64_t detail;
  };
  static std::string Text(const Line& line);

  uint64_t hash_ = 0;
  uint64_t events_ = 0;
  std::array<Line, 256> last_;
  std::ostream* out_ = nullptr;
};

}  // namespace paracord
