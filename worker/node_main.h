// The process of a node (node/node.h): paracord-worker in a cluster without ps. Used in main.
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
  CoordinatorFlags coordinator;  // for worker 0, if worker 0 is the coordinator
  PsFlags ps;
  int64_t ps_threads;  // threads that apply pushes; default: all cores of the machine

  NodeFlags();
  void AddTo(Flags& flags);  // must outlive `flags`
};

// Where a node listens: --listen, or its own address in the cluster.
std::string NodeListenAddress(const DaemonFlags& shared, const Cluster& cluster);

// INVALID_ARGUMENT names a missing flag, a missing key of the cluster, or the certificate that
// proves too little. `own`: null without a certificate.
absl::Status CheckNode(const NodeFlags& flags, const DaemonFlags& shared,
                       const WorkerOptions& worker, const Cluster& cluster, Credentials* own);

// Runs this process's node and leaves the process with the node's exit code; returns an exit code
// if the node cannot begin.
int RunNode(WorkerOptions worker, const NodeFlags& flags, const DaemonFlags& shared,
            const GrpcOptions& grpc, Computer computer, const Cluster& cluster,
            const char* program);

}  // namespace paracord
