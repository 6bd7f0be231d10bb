// Finds out why calls to a peer get no connection: gRPC reports a failure without the reason, hence
// the probe dials the peer itself. A probe blocks on the network in a thread of its own, at most
// one thread at a time, which may outlive the object. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/name_lookup.h"
#include "security/credentials.h"

namespace paracord {

// Dials the peer once and returns why no connection comes about, for example "connection refused:
// no process listens at 10.0.0.7:7401", a process that says nothing or an expired certificate; ""
// if the peer answers. Blocks for at most about twice `patience_ms`. `credentials` is null for
// plain text.
std::string WhyNotReached(NameLookup& name, Credentials* credentials, int64_t patience_ms);

class DialProbe {
 public:
  DialProbe(std::string address, std::shared_ptr<Credentials> credentials);

  // Starts a probe unless a probe is running.
  void Look();
  // The finding of the last probe; "" if nothing is wrong, or no probe has ended.
  std::string Problem() const;

 private:
  struct State;
  const std::string address_;
  const std::shared_ptr<Credentials> credentials_;
  const std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace paracord
