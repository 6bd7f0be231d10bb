// The clients that this process has refused or cut off: how many, which certificates and why, for
// the log, for metrics and for a function that hears each logged refusal. Shared by the listeners
// of a process and the monitor; thread-safe.
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
  // Why a client was refused or cut off. kTls: no TLS, or no valid certificate; kGreeting: a stream
  // without a stream's greeting, or without the token that it needs; kRight: the peer may not make
  // the call, or a call by gRPC lacks the token that it needs; kStreams: the peer's task has as
  // many streams as it may have; kResets: too many requests begun or reset; kFrames: abuse of
  // HTTP/2.
  enum class Cause { kTls, kGreeting, kRight, kStreams, kResets, kFrames };
  // The word of the cause in metrics, such as "tls".
  static const char* NameOf(Cause cause);

  struct Refusal {
    Cause cause = Cause::kTls;
    const char* what = "refuses";  // "cuts" for a connection already served
    std::string address;           // the client's address
    std::string certificate = "";  // name and serial of a verified certificate; "" without one
    std::string why;
  };
  // Counts a refusal. Logs at most one refusal a second, because a stranger can be refused as often
  // as it can connect.
  void Note(const Refusal& refusal);
  // From now on each logged sentence is passed to `hear`, on the thread that calls Note.
  void Tell(std::function<void(const std::string& sentence)> hear);

  using Who = std::pair<Cause, std::string>;  // the cause, and Refusal::certificate
  // The number of refusals of each pair. Once kCertificatesMax pairs are counted, refusals of new
  // pairs are counted under their cause and the certificate "".
  std::map<Who, uint64_t> counts() const;
  // The newest logged sentence; "" before the first.
  std::string last() const;

 private:
  // Above so many pairs new certificates are not counted apart: each pair is a line of metrics.
  static constexpr size_t kCertificatesMax = 64;

  OncePerSecond may_say_;
  mutable Mutex mu_;
  std::map<Who, uint64_t> counts_ ABSL_GUARDED_BY(mu_);
  std::string last_ ABSL_GUARDED_BY(mu_);
  std::function<void(const std::string&)> hear_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
