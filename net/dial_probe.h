// Finds out why calls to a peer get no connection, by one connection of its own: the library
// beneath a link knows that it fails, and not why. A probe waits for the network, in a thread of
// its own, at most one at a time, which may outlive the object. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/name_lookup.h"
#include "security/credentials.h"

namespace paracord {

// Returns why no connection to the peer comes about, such as "connection refused: no process
// listens at 10.0.0.7:7401" or that a certificate has expired; "" if one does. Blocks for at most
// about twice `patience_ms`. `credentials` is null for plain text.
std::string WhyNotReached(NameLookup& name, Credentials* credentials, int64_t patience_ms);

class DialProbe {
 public:
  DialProbe(std::string address, std::shared_ptr<Credentials> credentials);

  // Starts a probe unless one is under way.
  void Look();
  // What the last probe found; "" if nothing is wrong, or none has ended.
  std::string Problem() const;

 private:
  struct State;
  const std::string address_;
  const std::shared_ptr<Credentials> credentials_;
  const std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace paracord
