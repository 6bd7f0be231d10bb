// The members of the cluster and the task of this process, read from TF_CONFIG in the forms that
// TensorFlow and the Kubeflow operator write.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paracord {

enum class Role { kCoordinator, kWorker, kPs, kEvaluator };

std::string RoleName(Role role);  // "coordinator", "worker", "ps", "evaluator"

struct Task {
  Role role = Role::kCoordinator;
  uint32_t index = 0;
  std::string ToString() const;  // "worker:1"
};

struct Cluster {
  // Addresses are "host:port", "[v6]:port" or "unix:/path"; "": TF_CONFIG names no coordinator.
  std::string coordinator;
  std::vector<std::string> ps;              // addresses by index; "": an index without a ps
  std::map<uint32_t, std::string> workers;  // addresses by index; indices may be missing
  std::map<uint32_t, std::string> evaluators;
  std::optional<Task> task;  // of this process; nullopt: TF_CONFIG names none
};

// Returns the error that the process `whose` (a name for people) has no address in the cluster. The
// error advises to give the address at `key` of the cluster, or to follow `remedy`.
absl::Status NoAddress(const Cluster& cluster, const std::string& whose, const std::string& key,
                       const std::string& remedy);

// Returns nullopt for an empty text or an empty object: there is no cluster. An error names each
// wrong key, or the line that is no JSON.
absl::StatusOr<std::optional<Cluster>> ParseTfConfig(const std::string& json);

// Parses "worker:1", "ps:0", "chief", "master", "coordinator" or "evaluator".
absl::StatusOr<Task> ParseTask(const std::string& text);

// Whether a host that dials the address reaches itself, as at localhost. False for unix sockets.
bool IsLoopback(const std::string& address);
// True for loopback addresses and unix sockets.
bool StaysHere(const std::string& address);
// Names the coordinator, a ps or a worker whose address other hosts can dial, such as
// "cluster.ps[1] is 10.0.0.2:7401"; "" if StaysHere is true for all their addresses.
std::string TaskElsewhere(const Cluster& cluster);

// Checks the form of one address. An error names `key`.
absl::Status CheckAddress(const std::string& address, const std::string& key);
// Checks the form of each address (its key is `key`[i]), and that no address occurs twice.
absl::Status CheckAddresses(const std::vector<std::string>& addresses, const std::string& key);

}  // namespace paracord
