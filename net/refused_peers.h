// The clients refused or cut off by this process: how many, which certificates and why, for the
// log, for metrics and for a listener of every refusal. Shared by the listeners of a process and
// the monitor; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/mutex.h"
#include "common/steady_ms.h"

namespace paracord {

class RefusedPeers {
 public:
  // Why, in a word, for metrics.
  enum class Cause { kTls, kRight, kResets, kFrames };
  static const char* NameOf(Cause cause);

  struct Refusal {
    Cause cause = Cause::kTls;
    const char* what = "refuses";  // or "cuts", for a connection already served
    std::string address;           // the client's
    std::string certificate = "";  // the believed certificate's name and serial; "" of strangers
    std::string why;
  };
  // Counts a refusal. Logs at most once a second, because a stranger can be refused as often as it
  // can connect.
  void Note(const Refusal& refusal);
  // Sets `hear`, called with the sentence of each logged refusal, on a listener's thread.
  void Tell(std::function<void(const std::string& sentence)> hear);

  using Who = std::pair<Cause, std::string>;  // why, and the certificate's name
  // Refusals by certificate; beyond a number of certificates, further ones count as strangers.
  std::map<Who, uint64_t> counts() const;
  // The newest logged sentence; "" before the first.
  std::string last() const;

 private:
  static constexpr size_t kCertificatesMax = 64;  // each is a line of the metrics

  OncePerSecond may_say_;
  mutable Mutex mu_;
  std::map<Who, uint64_t> counts_ ABSL_GUARDED_BY(mu_);
  std::string last_ ABSL_GUARDED_BY(mu_);
  std::function<void(const std::string&)> hear_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
