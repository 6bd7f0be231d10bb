// Finds out why calls to a peer get no connection: gRPC reports a failure without the reason, hence
// the probe dials the peer itself. A DialProbe dials in a thread of its own, with at most one such
// thread at a time; the thread may outlive the DialProbe. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/name_lookup.h"
#include "security/credentials.h"

namespace paracord {

// Dials the peer once and returns a sentence that says why no connection comes about, such as
// "connection refused: no process listens at 10.0.0.7:7401". Returns "" if the peer answers. Also
// finds a peer that says nothing, and an expired certificate. Connecting takes at most
// `patience_ms`. The TLS handshake or, in plain text, the peer's first bytes may take `patience_ms`
// more, and a TLS server gets another 500 ms to refuse our certificate. Null `credentials`: plain
// text.
std::string WhyNotReached(NameLookup& name, Credentials* credentials, int64_t patience_ms);

class DialProbe {
 public:
  DialProbe(std::string address, std::shared_ptr<Credentials> credentials);

  // Starts a probe in a thread unless a probe is running.
  void Look();
  // What WhyNotReached returned to the last probe that ended; "" if no probe has ended.
  std::string Problem() const;

 private:
  struct State;
  const std::string address_;
  const std::shared_ptr<Credentials> credentials_;
  const std::shared_ptr<State> state_;  // shared with the probe's thread
};

}  // namespace paracord
