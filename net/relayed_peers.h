// Who is behind each connection that a relay hands to gRPC. gRPC sees only a socket of the relay's,
// whose name is the key here. Shared by the relay and gRPC's threads; thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/mutex.h"
#include "security/call_rights.h"

namespace paracord {

struct RelayedPeer {
  Access access;
  bool needs_token = false;
};

class RelayedPeers {
 public:
  void Add(const std::string& name, RelayedPeer peer) {
    MutexLock lock(mu_);
    peers_.insert_or_assign(name, std::move(peer));
  }
  void Remove(const std::string& name) {
    MutexLock lock(mu_);
    peers_.erase(name);
  }
  std::optional<RelayedPeer> Find(const std::string& name) const {
    MutexLock lock(mu_);
    const auto found = peers_.find(name);
    return found == peers_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable Mutex mu_;
  std::map<std::string, RelayedPeer> peers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
