// Resolves the name of a peer, "host:port", repeatedly. With a silent name server, getaddrinfo
// blocks for half a minute and cannot be cancelled; hence a NameLookup does each lookup in a thread
// of its own, one at a time, and the thread may outlive the NameLookup. Thread-safe.
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

// Resolves "host:port" to at least one socket address. Blocks as getaddrinfo does; `flags` are the
// ai_flags of getaddrinfo. Returns INVALID_ARGUMENT, with the reason, if the name does not resolve.
absl::StatusOr<std::vector<SocketAddress>> ResolveAddress(const std::string& address, int flags);

class NameLookup {
 public:
  using AskFn = std::function<absl::StatusOr<std::vector<SocketAddress>>(const std::string&)>;
  // `ask` resolves an address whose host is a name, and may block.
  explicit NameLookup(std::string address, AskFn ask = AskSystem);

  // Returns the socket addresses of the peer; a numeric address needs no lookup. Returns
  // UNAVAILABLE if the lookup fails, or takes longer than `patience_ms`.
  absl::StatusOr<std::vector<SocketAddress>> Find(int64_t patience_ms);

  // Starts a lookup unless a lookup is in flight. Does not wait.
  void Look();
  // Says why the last lookup failed, or that the lookup in flight has no answer yet. Returns ""
  // after a success, and before the first lookup.
  std::string Problem() const;

  const std::string& address() const { return address_; }

 private:
  struct State;
  static absl::StatusOr<std::vector<SocketAddress>> AskSystem(const std::string& address);

  const std::string address_;
  const AskFn ask_;
  const std::shared_ptr<State> state_;  // shared with the lookup's thread
};

// True if the host of the address must be looked up: false for "10.0.0.7:1" and "unix:/path".
bool HasName(const std::string& address);

}  // namespace paracord
