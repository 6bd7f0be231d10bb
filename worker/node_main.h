// Runs the process of a node (node/node.h): paracord-worker in a cluster without ps. Used in main.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "config/cluster.h"
#include "coordinator/coordinator_process.h"
#include "daemon/daemon_process.h"
#include "server/ps_process.h"
#include "worker/compute_main.h"
#include "worker/worker.h"

namespace paracord {

// The flags that a node has beyond a worker's.
struct NodeFlags {
  CoordinatorFlags coordinator;  // used by worker 0, if worker 0 is the coordinator too
  PsFlags ps;
  int64_t ps_threads;  // threads that apply a push; default: the number of the machine's cores

  NodeFlags();
  void AddTo(Flags& flags);  // must outlive `flags`
};

// Returns where a node listens: --listen or, without the flag, the node's address in the cluster.
std::string NodeListenAddress(const DaemonFlags& shared, const Cluster& cluster);

// INVALID_ARGUMENT if --dir or --job is missing, if the cluster or the security flags are not fit
// for nodes, or if the certificate of worker 0, which is the coordinator too, is for every worker.
// `own`: this process's credentials; null without a certificate.
absl::Status CheckNode(const NodeFlags& flags, const DaemonFlags& shared,
                       const WorkerOptions& worker, const Cluster& cluster, Credentials* own);

// Runs this process's node, and ends the process with the node's exit code. Returns only if the
// node cannot begin, with an exit code.
int RunNode(WorkerOptions worker, const NodeFlags& flags, const DaemonFlags& shared,
            const GrpcOptions& grpc, Computer computer, const Cluster& cluster,
            const char* program);

}  // namespace paracord
