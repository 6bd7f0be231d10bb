// A cluster without ps: its workers are nodes, which hold the variables as well as they compute, so
// that worker N is also ps N, and worker 0 the coordinator where the cluster names no chief. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/cluster.h"

namespace paracord {

// Whether the workers that a cluster names are nodes: it has no ps.
bool HasNodes(const Cluster& cluster);

// Whether a task of the cluster is a node. Workers that the cluster does not name are none.
bool IsNode(const Cluster& cluster, const Task& task);

// Returns the index of the node on a host, by the host's name: the one node whose address is that
// name, alone or with a domain, as a pod's is. nullopt if the cluster has no nodes, or none or
// several of them are there.
std::optional<uint32_t> NodeOnHost(const Cluster& cluster, const std::string& host);

// Returns where the ps of a cluster are, by index, which are its nodes where it has no ps. Empty if
// it has neither. INVALID_ARGUMENT names the index that cluster.worker lacks.
absl::StatusOr<std::vector<std::string>> PsAddressesOf(const Cluster& cluster);

// A node divides its --memory-limit into equal parts, as two processes of one machine would have
// it: its worker computes with the one, and its ps holds its share of the variables in the other.
inline constexpr uint64_t kNodeMemoryParts = 2;
// Returns the bytes that the worker and the ps of a node with this --memory-limit have each.
constexpr uint64_t NodeMemoryPart(uint64_t limit) { return limit / kNodeMemoryParts; }

// Returns where the coordinator is: the chief, or else node 0; "" if the cluster has neither.
std::string CoordinatorOf(const Cluster& cluster);

}  // namespace paracord
