// Allows each of many keys a number of events in a window of time. The first event of a key begins
// the key's window. The first event after the end of the window begins a new window. The object
// keeps only a 64-bit hash of a key. The caller passes the time. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"

namespace paracord {

class RateLimit {
 public:
  // Allows a key `times_max` events in `window_ms`. Remembers at most `keys_max` keys: when another
  // key comes, the object forgets all keys before it.
  RateLimit(uint32_t times_max, int64_t window_ms, size_t keys_max)
      : times_max_(times_max), window_ms_(window_ms), keys_max_(keys_max) {}

  // Counts an event of the key and returns true. If the key has had `times_max` events in its
  // window, counts nothing and returns false.
  bool Allow(const std::string& key, int64_t now_ms) {
    const uint64_t hash = absl::HashOf(key);
    auto at = windows_.find(hash);
    if (at == windows_.end()) {
      if (windows_.size() >= keys_max_) windows_.clear();
      at = windows_.insert({hash, {now_ms, 0}}).first;
    }
    Window& window = at->second;
    if (now_ms - window.since_ms >= window_ms_) window = {now_ms, 0};
    if (window.times >= times_max_) return false;
    ++window.times;
    return true;
  }

 private:
  struct Window {
    int64_t since_ms = 0;
    uint32_t times = 0;
  };
  const uint32_t times_max_;
  const int64_t window_ms_;
  const size_t keys_max_;
  absl::flat_hash_map<uint64_t, Window> windows_;
};

}  // namespace paracord
