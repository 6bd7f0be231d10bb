// A node: a process of a cluster without ps, with a Worker and a ParameterServer that holds a share
// of the partitions. The process of worker 0 also has the Coordinator, unless the cluster names a
// chief. The three classes are those of the daemons; in a node they share an event loop and a
// listener, and call each other without the network (node/own_network.h). Owned by main. All
// functions are called on the loop, except Handle, which several threads may call at once.
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
  std::string address;  // the address of this process that other nodes dial
  WorkerOptions worker;
  PsOptions ps;
  std::optional<CoordinatorOptions> coordinator;  // nullopt: this node has no coordinator
};

// The executors of a node. Each role has an executor for long work, so that a snapshot of the ps
// does not delay a gradient of the worker. All executors outlive the node.
struct NodeExecutors {
  Executor& worker;
  Executor& ps;
  // Serves the calls Exchange and Stage from the node's worker to the node's ps, and exchanges from
  // any worker that waited because other workers were slow to read their replies (server/parked.h).
  Executor& exchanges;
  // Serves all other calls between the node's roles, which are short. Queued behind a long push,
  // they would time out, and coordinator and worker would take each other for dead.
  Executor& calls;
  Executor& coordinator;
};

class Node : public Service {
 public:
  // Calls `exit` once, on the loop, when all roles have left, with the code of Departures::Last.
  Node(NodeOptions options, OpenWorkloadFn open, const Environment& environment,
       const NodeExecutors& executors, std::function<void(int exit_code, std::string reason)> exit);
  ~Node() override;

  // Starts the worker and the coordinator (the constructor starts the ps). The process must already
  // listen at `address`.
  void Start(const std::string& address);
  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override {
    services_->Handle(method, std::move(request), std::move(call));
  }
  // Called on SIGTERM; `signal` is the reason in the log. The coordinator takes a checkpoint and
  // leaves; then the worker finishes its batch, returns its leases and leaves; then the ps leaves
  // (ParameterServer::Drain).
  void Drain(const std::string& signal);

  // For supervisors. Ready if the worker and the ps are ready and have not left, and the
  // coordinator is ready if the node has one now.
  HealthState Health() const;
  // Adds the metrics of all roles.
  void AddMetrics(MetricSet& metrics) const;
  // Returns Coordinator::PageJson, or "{}" without a coordinator.
  std::string PageJson();
  // Adds the listener's sentence about a refused client to the events on the status page.
  void NoteRefused(const std::string& sentence);

  ParameterServer& ps() { return *ps_; }
  // Null if this node never had a coordinator or the coordinator has left.
  Coordinator* coordinator() { return coordinator_.get(); }
  // For the simulator: routes the calls to a role through `before`, which forwards them. Called
  // before Start.
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
  const bool stays_;  // the process stays after the job's end, until SIGTERM
  // Shared with calls of this process that executors may still hold when the node is destroyed:
  // such calls then find no role.
  const std::shared_ptr<ServiceByMethod> services_ = std::make_shared<ServiceByMethod>();
  OwnNetwork network_;
  // For start_, with the process's network instead of network_: it asks coordinators in other
  // processes.
  const Environment start_in_;
  std::unique_ptr<ParameterServer> ps_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<CoordinatorStart> start_;

  Departures left_;
  bool others_leave_ = false;   // a role has left, and the others have to
  std::string draining_;        // reason for draining, or ""
  std::optional<Role> drains_;  // the role that drains now, or drained last
  const Gate gate_;
};

}  // namespace paracord
