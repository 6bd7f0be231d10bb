// Runs the process of a node (node/node.h): paracord-worker in a cluster without ps. Used in main.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "config/cluster.h"
#include "coordinator/coordinator_process.h"
#include "daemon/daemon_process.h"
#include "node/compute_main.h"
#include "server/ps_process.h"
#include "worker/worker.h"

namespace paracord {

// The flags that a node has beyond a worker's.
struct NodeFlags {
  CoordinatorFlags coordinator;  // used by worker 0 if the cluster has no chief
  PsFlags ps;
  int64_t ps_threads;  // threads that apply a push; default: the number of the machine's cores

  NodeFlags();
  void AddTo(Flags& flags);  // this object must outlive `flags`
};

// Returns where a node listens: --listen or, without the flag, the node's address in the cluster.
std::string NodeListenAddress(const DaemonFlags& shared, const Cluster& cluster);

// INVALID_ARGUMENT if --dir is missing, or if the cluster or the security flags are not fit for
// nodes. For worker 0 of a cluster without a chief, which is the coordinator too, also if --job is
// missing, or if the certificate is for every worker. `own` is null without a certificate.
absl::Status CheckNode(const NodeFlags& flags, const DaemonFlags& shared,
                       const WorkerOptions& worker, const Cluster& cluster, Credentials* own);

// Runs this process's node, and ends the process with the node's exit code. Returns only if the
// node cannot begin, with an exit code.
int RunNode(WorkerOptions worker, const NodeFlags& flags, const DaemonFlags& shared,
            const GrpcOptions& grpc, Computer computer, const Cluster& cluster,
            const char* program);

}  // namespace paracord
