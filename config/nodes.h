// A cluster without ps: its workers are nodes, which compute and also hold the variables. Worker N
// is also ps N. Worker 0 is also the coordinator, if the cluster names no chief. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/cluster.h"

namespace paracord {

// Whether the workers of a cluster are nodes, because it has no ps.
bool HasNodes(const Cluster& cluster);

// Whether a task is a node. A worker that the cluster does not name is no node.
bool IsNode(const Cluster& cluster, const Task& task);

// Returns the index of the only node whose address is on the host `host`: the address begins with
// `host` and goes on with ":" or with a domain (`host` may be a short name). Nullopt if the cluster
// has no nodes, or if no node or several nodes are on `host`.
std::optional<uint32_t> NodeOnHost(const Cluster& cluster, const std::string& host);

// Returns the addresses of a cluster's ps, by index; in a cluster of nodes, those of the nodes.
// Empty if there are neither ps nor nodes. INVALID_ARGUMENT: cluster.worker lacks the index of a
// node.
absl::StatusOr<std::vector<std::string>> PsAddressesOf(const Cluster& cluster);

// A node divides its --memory-limit into two budgets of one half each, as if it were two processes:
// one is for the worker's computing, and one for the ps with its variables.
inline constexpr uint64_t kNodeMemoryParts = 2;
// Returns the bytes of each of the two budgets of a node with the --memory-limit `limit`.
constexpr uint64_t NodeMemoryPart(uint64_t limit) { return limit / kNodeMemoryParts; }

// Returns the coordinator's address: the chief's, or node 0's; "" if there is neither.
std::string CoordinatorOf(const Cluster& cluster);

}  // namespace paracord
