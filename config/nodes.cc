#include "config/nodes.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paracord {

bool HasNodes(const Cluster& cluster) { return cluster.ps.empty() && !cluster.workers.empty(); }

bool IsNode(const Cluster& cluster, const Task& task) {
  return HasNodes(cluster) && task.role == Role::kWorker && cluster.workers.contains(task.index);
}

std::optional<uint32_t> NodeOnHost(const Cluster& cluster, const std::string& host) {
  std::optional<uint32_t> found;
  if (!HasNodes(cluster) || host.empty()) return found;
  for (const auto& [index, address] : cluster.workers) {
    const bool here = absl::StartsWith(address, absl::StrCat(host, ":")) ||
                      absl::StartsWith(address, absl::StrCat(host, "."));
    if (!here) continue;
    if (found.has_value()) return std::nullopt;
    found = index;
  }
  return found;
}

absl::StatusOr<std::vector<std::string>> PsAddressesOf(const Cluster& cluster) {
  if (!HasNodes(cluster)) return cluster.ps;
  std::vector<std::string> addresses;
  for (const auto& [index, address] : cluster.workers) {
    if (index != addresses.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cluster.worker has index ", index, " and no index ", addresses.size(),
          ": in a cluster without ps the workers hold the variables, so that none from 0 on may be "
          "missing (or name the parameter servers in cluster.ps)"));
    }
    addresses.push_back(address);
  }
  return addresses;
}

std::string CoordinatorOf(const Cluster& cluster) {
  if (!cluster.coordinator.empty() || !HasNodes(cluster)) return cluster.coordinator;
  const auto first = cluster.workers.find(0);
  return first == cluster.workers.end() ? "" : first->second;
}

}  // namespace paracord
