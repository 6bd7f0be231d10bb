// The clients that this process has refused or cut off: how many, which certificates and why, for
// the log, for metrics and for whoever wants to hear of each. Shared by the listeners of a process
// and by those who show it; thread-safe.
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
    const char* what = "refuses";  // or "cuts", of a connection that was served
    std::string address;           // the client's
    std::string certificate = "";  // the believed certificate's name and serial; "" of strangers
    std::string why;
  };
  // Counts a refusal, and says so in the log at most once a second, since a stranger can be refused
  // as often as it can connect.
  void Note(const Refusal& refusal);
  // `hear` gets the sentence of each refusal that is logged, on the thread of a listener.
  void Tell(std::function<void(const std::string& sentence)> hear);

  using Who = std::pair<Cause, std::string>;  // why, and the certificate's name
  // How many there were; beyond some certificates, the others count as strangers.
  std::map<Who, uint64_t> counts() const;
  // The newest sentence that was logged; "" without one.
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
