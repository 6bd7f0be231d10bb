// The identity of a process: a URI in its certificate, spiffe://<cluster>/<role>/<index>. An
// identity without an index stands for every task of the role. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace paracord {

enum class PeerRole : uint8_t { kPs, kWorker, kCoordinator, kOperator, kMonitor };
inline constexpr PeerRole kPeerRoles[] = {PeerRole::kPs, PeerRole::kWorker, PeerRole::kCoordinator,
                                          PeerRole::kOperator, PeerRole::kMonitor};

// Returns "ps", "worker", "coordinator", "operator" or "monitor".
std::string_view NameOf(PeerRole role);

struct PeerIdentity {
  std::string cluster;
  PeerRole role = PeerRole::kMonitor;
  std::optional<uint32_t> index;

  // Returns the task's name, such as "worker:3", or "worker" without an index.
  std::string Task() const;
  std::string Uri() const;
  bool operator==(const PeerIdentity&) const = default;
};

// Returns INVALID_ARGUMENT, with what is wrong, if the URI is no identity.
absl::StatusOr<PeerIdentity> ParsePeerIdentity(std::string_view uri);

}  // namespace paracord
