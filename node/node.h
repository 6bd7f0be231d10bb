// A node: a process of a cluster without ps. Its roles are a Worker, a ParameterServer that holds a
// share of the partitions, and in the process of worker 0 a Coordinator if the cluster names no
// chief. The three classes are those that run as processes of their own in clusters with ps; in a
// node they share an event loop and a listener, and call each other without the network
// (node/own_network.h). Owned by main. All functions are called on the loop, but Handle, which
// threads of the listener call at the same time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/environment.h"
#include "common/gate.h"
#include "common/log.h"
#include "config/cluster.h"
#include "coordinator/coordinator.h"
#include "coordinator/coordinator_process.h"
#include "net/service_by_method.h"
#include "node/departures.h"
#include "node/own_network.h"
#include "server/parameter_server.h"
#include "worker/worker.h"

namespace paracord {

struct NodeOptions {
  std::string address;  // the cluster's address of this process, which other nodes dial
  WorkerOptions worker;
  PsOptions ps;
  std::optional<CoordinatorOptions> coordinator;  // none: the coordinator is another process
};

// The threads of a node. Each role has one for its long work, so that a snapshot of the ps does not
// wait for a gradient of the worker. All of them outlive the node.
struct NodeExecutors {
  Executor& worker;
  Executor& ps;
  // Serves the exchanges of the node's worker with its own ps, and exchanges that were parked.
  Executor& exchanges;
  // Serves all other calls between the node's roles. These are short, and a coordinator or worker
  // that waited for its answer behind a push would take the other one for lost.
  Executor& calls;
  Executor& coordinator;
};

class Node : public Service {
 public:
  // `exit` is called once, on the loop, when all roles have left, with the exit code that
  // Departures::Last chooses.
  Node(NodeOptions options, OpenWorkloadFn open, const Environment& environment,
       const NodeExecutors& executors, std::function<void(int exit_code, std::string reason)> exit);
  ~Node() override;

  // Starts the roles. The process listens at `address` already.
  void Start(const std::string& address);
  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override {
    services_->Handle(method, std::move(request), std::move(call));
  }
  // Called on SIGTERM: the coordinator takes a checkpoint and leaves first, then the worker
  // finishes its batch and gives its leases back, and then the ps leaves as after a SIGTERM of its
  // own.
  void Drain(const std::string& signal);

  // For supervisors: ready if all roles are ready.
  HealthState Health() const;
  // Adds the metrics of all roles.
  void AddMetrics(MetricSet& metrics) const;
  // Returns the status of the job; "{}" in a process without a coordinator.
  std::string PageJson();
  // Makes an event of the job of what the listener says about a client that it refused.
  void NoteRefused(const std::string& sentence);

  ParameterServer& ps() { return *ps_; }
  // Null if the coordinator is another process, or has left.
  Coordinator* coordinator() { return coordinator_.get(); }
  // For the simulator: hands calls to the ps or the coordinator of this process to `before`, which
  // looks at them and hands them on. Called before Start.
  void CallThrough(Role role, Service& before);

 private:
  std::function<void(int, std::string)> LeaveAs(Role role);
  void Left(Role role, int code, const std::string& reason);
  bool TakesOthersAlong(Role role, int code) const;
  void LeaveToo(const std::string& why);
  void DrainNext();
  void EndCoordinator();
  void ExitIfAllLeft();

  const std::function<void(int, std::string)> exit_;
  EventLoop& loop_;
  const Logger log_;
  const bool stays_;  // after the job's end, until SIGTERM
  // Shared with calls of the own process that `executors` still have when the node has ended; these
  // find no role any more.
  const std::shared_ptr<ServiceByMethod> services_ = std::make_shared<ServiceByMethod>();
  OwnNetwork network_;
  // The coordinator's start asks whether another process leads the job, and so never dials itself.
  const Environment start_in_;
  std::unique_ptr<ParameterServer> ps_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<CoordinatorStart> start_;

  Departures left_;
  bool others_leave_ = false;   // one role has left, and the others leave because of that
  std::string draining_;        // the reason why the node drains; empty: it does not drain
  std::optional<Role> drains_;  // the role that drains now, or was the last to drain
  const Gate gate_;
};

}  // namespace paracord
