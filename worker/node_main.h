// The process of a node (node/node.h), which paracord-worker is where its cluster has no ps. Used
// in main.
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

// What a node has to be told beyond a worker.
struct NodeFlags {
  CoordinatorFlags coordinator;  // of worker 0, if it is the coordinator
  PsFlags ps;
  int64_t ps_threads;  // that apply a push; at first as many as this machine has

  NodeFlags();
  void AddTo(Flags& flags);  // must outlive `flags`
};

// Where a node listens: --listen, or its own address in the cluster.
std::string NodeListenAddress(const DaemonFlags& shared, const Cluster& cluster);

// INVALID_ARGUMENT names the flag or the key of the cluster that is missing, or the certificate
// that proves too little. `own` may be null: without a certificate.
absl::Status CheckNode(const NodeFlags& flags, const DaemonFlags& shared,
                       const WorkerOptions& worker, const Cluster& cluster, Credentials* own);

// Runs the node that is this process's task, and leaves the process with its exit code; returns one
// if it cannot begin.
int RunNode(WorkerOptions worker, const NodeFlags& flags, const DaemonFlags& shared,
            const GrpcOptions& grpc, Computer computer, const Cluster& cluster,
            const char* program);

}  // namespace paracord
