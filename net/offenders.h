// What the connections of each certificate do together, since one client may have many: how many
// requests they begin and reset in a second, and how often they were cut off for that. After the
// second time within a while, new connections of the certificate are refused for as long. A
// listener's alone; used by one thread.
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
  // Bounds what all connections of a certificate do in a second. Many tasks may share one without
  // an index, and each resets the calls that it gives up.
  static constexpr uint64_t kResetsMax = 5 * FrameRate::kResetsMax;
  // Bounds the requests of a certificate that may only look, as a monitor's.
  static constexpr uint64_t kLooksMax = 500;

  // Counts requests that a connection with this certificate has reset by now, and those that it has
  // begun if it may only look. Returns false if they are too many. "" is no certificate, and many
  // clients have none: nothing is counted.
  bool Allow(const std::string& certificate, uint64_t resets, uint64_t looks, int64_t now_ms) {
    if (certificate.empty() || resets + looks == 0) return true;
    Conduct& conduct = Of(certificate, now_ms);
    const bool few_resets = conduct.resets.Allow(resets, now_ms);
    return conduct.looks.Allow(looks, now_ms) && few_resets;
  }
  // A connection with this certificate was cut.
  void Cut(const std::string& certificate, int64_t now_ms) {
    if (certificate.empty()) return;
    Conduct& conduct = Of(certificate, now_ms);
    if (now_ms - conduct.cut_ms > kWhileMs) conduct.times = 0;
    ++conduct.times;
    conduct.cut_ms = now_ms;
  }
  // Whether a connection with this certificate is refused now.
  bool Refused(const std::string& certificate, int64_t now_ms) const {
    const auto found = all_.find(certificate);
    return found != all_.end() && found->second.times >= kTimesMax &&
           now_ms - found->second.cut_ms <= kWhileMs;
  }

 private:
  struct Conduct {
    FrameRate resets{kResetsMax};
    FrameRate looks{kLooksMax};
    int times = 0;  // that a connection was cut
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

  std::map<std::string, Conduct> all_;  // by the certificate's name; only believed ones get here
};

}  // namespace paracord
