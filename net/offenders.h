// Certificates whose connections were cut because they do what no client does: after the second
// time within a while, new connections of the certificate are refused for as long. A listener's
// alone; used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace paracord {

class Offenders {
 public:
  static constexpr int64_t kWhileMs = 10000;
  static constexpr int kTimesMax = 2;

  // A connection with this certificate was cut; "" for none, which nothing follows from.
  void Cut(const std::string& certificate, int64_t now_ms) {
    if (certificate.empty()) return;
    std::erase_if(all_, [&](const auto& each) { return now_ms - each.second.last_ms > kWhileMs; });
    Offence& offence = all_[certificate];
    ++offence.times;
    offence.last_ms = now_ms;
  }
  // Whether a connection with this certificate is refused now.
  bool Refused(const std::string& certificate, int64_t now_ms) const {
    const auto found = all_.find(certificate);
    return found != all_.end() && found->second.times >= kTimesMax &&
           now_ms - found->second.last_ms <= kWhileMs;
  }

 private:
  struct Offence {
    int times = 0;
    int64_t last_ms = 0;
  };
  std::map<std::string, Offence> all_;  // by the certificate's name; only believed ones get here
};

}  // namespace paracord
