// Reads a fuzzer's bytes as numbers and texts, and aborts if a property is violated. Values; one
// thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "absl/strings/cord.h"
#include "common/log.h"

namespace paracord::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  size_t size() const { return rest_.size(); }
  // Takes the bytes that a number up to `max` needs. Missing bytes are zero.
  uint64_t Number(uint64_t max) {
    uint64_t value = 0;
    for (uint64_t left = max; left > 0; left >>= 8) value = value << 8 | Byte();
    return max == UINT64_MAX ? value : value % (max + 1);
  }
  std::string_view Bytes(size_t count) {
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string_view Rest() { return Bytes(rest_.size()); }

 private:
  uint64_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }

  std::string_view rest_;
};

// Turns off the log, which would take most of the time.
inline void BeQuiet() {
  static const bool done = [] {
    SetUpLogging("off");
    return true;
  }();
  (void)done;
}

// Aborts unless `holds`. The fuzzer keeps the input.
inline void Demand(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", property);
  std::abort();
}

// Returns a Cord with chunks of at most `chunk` bytes. Each chunk is separate memory, so that ASan
// notices a read beyond its end.
inline absl::Cord Chunked(std::string_view bytes, size_t chunk) {
  absl::Cord cord;
  for (size_t at = 0; at < bytes.size(); at += chunk) {
    const std::string_view part = bytes.substr(at, chunk);
    char* const own = new char[part.size()];
    std::copy(part.begin(), part.end(), own);
    cord.Append(absl::MakeCordFromExternal({own, part.size()}, [own] { delete[] own; }));
  }
  return cord;
}

}  // namespace paracord::fuzz
