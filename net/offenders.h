// Adds up the behaviour of all connections of a certificate, because a client may open many: the
// requests reset in a second, those begun in a second by a monitor or an operator, and how many
// connections were cut for beginning or resetting too many requests. If two connections are cut
// within kWhileMs of each other, the certificate's new connections are refused for kWhileMs after
// the second cut. Owned by the relay (net/frame_relay.h); used by one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "net/header_blocks.h"

namespace paracord {

class Offenders {
 public:
  static constexpr int64_t kWhileMs = 10000;
  static constexpr int kTimesMax = 2;
  // Resets per second of a certificate. Many tasks may share a certificate that names no index, and
  // each task resets the calls that it gives up.
  static constexpr uint64_t kResetsMax = 5 * FrameRate::kResetsMax;
  // Requests per second of a monitor's or an operator's certificate.
  static constexpr uint64_t kLooksMax = 500;

  // Counts `resets` requests that a connection of this certificate has reset, and `looks` requests
  // that it has begun; for a certificate that is neither a monitor's nor an operator's the caller
  // passes 0 for `looks`. Returns false above a limit. Without a certificate ("") nothing is
  // counted.
  bool Allow(const std::string& certificate, uint64_t resets, uint64_t looks, int64_t now_ms) {
    if (certificate.empty() || resets + looks == 0) return true;
    Conduct& conduct = Of(certificate, now_ms);
    const bool few_resets = conduct.resets.Allow(resets, now_ms);
    return conduct.looks.Allow(looks, now_ms) && few_resets;
  }
  // Counts a cut of a connection with this certificate.
  void Cut(const std::string& certificate, int64_t now_ms) {
    if (certificate.empty()) return;
    Conduct& conduct = Of(certificate, now_ms);
    if (now_ms - conduct.cut_ms > kWhileMs) conduct.times = 0;
    ++conduct.times;
    conduct.cut_ms = now_ms;
  }
  // Whether a new connection with this certificate is refused now.
  bool Refused(const std::string& certificate, int64_t now_ms) const {
    const auto found = all_.find(certificate);
    return found != all_.end() && found->second.times >= kTimesMax &&
           now_ms - found->second.cut_ms <= kWhileMs;
  }

 private:
  struct Conduct {
    FrameRate resets{kResetsMax};
    FrameRate looks{kLooksMax};
    int times = 0;  // cuts, each within kWhileMs of the one before
    int64_t cut_ms = 0;
    int64_t seen_ms = 0;
  };
  Conduct& Of(const std::string& certificate, int64_t now_ms) {
    if (!all_.contains(certificate)) {
      std::erase_if(all_, [&](const auto& each) {
        return now_ms - std::max(each.second.cut_ms, each.second.seen_ms) > kWhileMs;
      });
    }
    Conduct& conduct = all_[certificate];
    conduct.seen_ms = now_ms;
    return conduct;
  }

  std::map<std::string, Conduct> all_;  // keyed by the name of a verified certificate
};

}  // namespace paracord
