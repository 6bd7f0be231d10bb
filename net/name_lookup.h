// The addresses of a peer "host:port", looked up by its name again and again. A name server that is
// silent keeps getaddrinfo for half a minute, and nothing ends that: it runs in a thread of its
// own, one for each NameLookup at a time, which may outlive it. Thread-safe.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paracord {

struct SocketAddress {
  sockaddr_storage at{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&at); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&at); }
};

// At least one. INVALID_ARGUMENT says that the name does not resolve, and why. `flags` as of
// getaddrinfo, for which this may wait.
absl::StatusOr<std::vector<SocketAddress>> ResolveAddress(const std::string& address, int flags);

class NameLookup {
 public:
  using AskFn = std::function<absl::StatusOr<std::vector<SocketAddress>>(const std::string&)>;
  // `ask` waits for the answer to one question.
  explicit NameLookup(std::string address, AskFn ask = AskSystem);

  // UNAVAILABLE when it does not resolve, or has not within `patience_ms`.
  absl::StatusOr<std::vector<SocketAddress>> Find(int64_t patience_ms);

  // Looks it up, unless that is under way. Does not wait.
  void Look();
  // What is wrong with the name, and what to do, as far as Look has found out by now; "": nothing.
  std::string Problem() const;

  const std::string& address() const { return address_; }

 private:
  struct State;
  static absl::StatusOr<std::vector<SocketAddress>> AskSystem(const std::string& address);

  const std::string address_;
  const AskFn ask_;
  const std::shared_ptr<State> state_;  // shared with the thread
};

// Whether there is a name in it to look up: neither a number nor a path.
bool HasName(const std::string& address);

}  // namespace paracord
