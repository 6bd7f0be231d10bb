// The history of a simulated world: a hash over all events, to compare two runs of a seed, and the
// last events as text for failure reports. Owned by the world.
#pragma once

#include <array>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/strings/cord.h"

namespace paracord {

enum class EventKind : uint8_t {
  kWorld,  // an event of the harness: a fault, a restart, a check
  kPost,   // a function posted to a loop
  kTimer,
  kWork,  // on an executor
  kWorkDone,
  kRequest,  // a request arrives at a host
  kHandle,   // a request arrives at a service
  kReply,
  kFailure,  // a caller learns of its call's failure
  kCancel,   // a server learns that the caller is gone
  kDeath,
  kFile,  // an operation on a file
};

const char* EventKindName(EventKind kind);

// A hash of this tree. absl::Hash is salted with an address, so it differs between runs.
uint64_t HashBytes(std::string_view bytes);
uint64_t HashCord(const absl::Cord& bytes);  // equal for equal contents, however chunked

class Trace {
 public:
  // Records an event. `label` must outlive the trace. `detail` is a hash of the bytes moved, or a
  // number.
  void Record(int64_t time_us, EventKind kind, uint32_t node, const char* label, uint64_t detail);

  uint64_t hash() const { return hash_; }
  uint64_t events() const { return events_; }
  // Writes every later event to `out` as a line of text, for diff of two runs.
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
