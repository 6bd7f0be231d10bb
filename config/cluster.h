// Who is in the cluster: TF_CONFIG in every form that TensorFlow and the Kubeflow operator write,
// and our own place in it.
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
  // Addresses as "host:port", "[v6]:port" or "unix:/path"; empty where the form leaves them out.
  std::string coordinator;
  std::vector<std::string> ps;              // by index; a hole is an empty string
  std::map<uint32_t, std::string> workers;  // sparse
  std::map<uint32_t, std::string> evaluators;
  std::optional<Task> task;  // ours; absent in a file that all tasks share
};

// Why a process has no address, which belongs at `key`; `remedy` is what else would do.
absl::Status NoAddress(const Cluster& cluster, const std::string& whose, const std::string& key,
                       const std::string& remedy);

// `json` empty (TF_CONFIG absent) gives nullopt: a local run. Every error names its key.
absl::StatusOr<std::optional<Cluster>> ParseTfConfig(const std::string& json);

// "worker:1", "ps:0", "chief", "coordinator", "evaluator".
absl::StatusOr<Task> ParseTask(const std::string& text);

// Whether it leads to the very host that dials it, as localhost does.
bool IsLoopback(const std::string& address);
// A task of the cluster that is elsewhere, as "cluster.ps[1] is 10.0.0.2:7401"; "" if all are on
// one host, or none is known.
std::string TaskElsewhere(const Cluster& cluster);

// Checks the form of one address; the error names `key`.
absl::Status CheckAddress(const std::string& address, const std::string& key);
// Each of them, which is `key`[i], and that none stands twice.
absl::Status CheckAddresses(const std::vector<std::string>& addresses, const std::string& key);

}  // namespace paracord
