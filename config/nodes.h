// A cluster without ps: its workers are nodes, which compute and also hold the variables. Worker N
// is also ps N, and worker 0 is the coordinator if the cluster names no chief. Pure.
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

// Whether a task is a node. Workers that the cluster does not name are not nodes.
bool IsNode(const Cluster& cluster, const Task& task);

// Returns the index of the only node whose address has the host name `host`, with or without a
// domain (a pod has both names). Nullopt if the cluster has no nodes, or no node or several have
// that name.
std::optional<uint32_t> NodeOnHost(const Cluster& cluster, const std::string& host);

// Returns the addresses of a cluster's ps, by index; in a cluster of nodes, of the nodes. Empty if
// there are neither ps nor nodes. INVALID_ARGUMENT: an index of a node is missing in
// cluster.worker.
absl::StatusOr<std::vector<std::string>> PsAddressesOf(const Cluster& cluster);

// A node halves its --memory-limit, like two processes on a machine: the worker computes in one
// half, the ps holds its variables in the other.
inline constexpr uint64_t kNodeMemoryParts = 2;
// Returns the bytes that the worker and the ps in a node each get from its --memory-limit.
constexpr uint64_t NodeMemoryPart(uint64_t limit) { return limit / kNodeMemoryParts; }

// Returns the coordinator's address: the chief's, or node 0's; "" if there is neither.
std::string CoordinatorOf(const Cluster& cluster);

}  // namespace paracord
