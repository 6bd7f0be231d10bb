// A node: a process of a cluster without ps. It is a worker, and the ps of a shard of the
// partitions, and in worker 0 the coordinator where the cluster names no chief. Each is the class
// that is a process of its own elsewhere; here they share a loop and a listener, and call each
// other by reference (node/own_network.h). Owned by main. Everything runs on the loop, but for
// Handle, which may be called from many threads at once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/environment.h"
#include "common/gate.h"
#include "common/log.h"
#include "config/cluster.h"
#include "coordinator/coordinator.h"
#include "coordinator/coordinator_process.h"
#include "net/service_by_method.h"
#include "node/own_network.h"
#include "server/parameter_server.h"
#include "worker/worker.h"

namespace paracord {

struct NodeOptions {
  std::string address;  // at which others reach this process, as the cluster has it
  WorkerOptions worker;
  PsOptions ps;
  std::optional<CoordinatorOptions> coordinator;  // if it is here
};

// The threads for long work. Each role has its own, because a snapshot must not wait for a
// gradient. They have to outlive the node.
struct NodeExecutors {
  Executor& worker;
  Executor& ps;
  Executor& exchanges;  // calls to the own process, and exchanges that had to wait
  Executor& coordinator;
};

class Node : public Service {
 public:
  // `exit` is called once, on the loop, when all roles have left: with the greatest of their codes,
  // where a role that was told to leave because another one had does not count.
  Node(NodeOptions options, OpenWorkloadFn open, const Environment& environment,
       const NodeExecutors& executors, std::function<void(int exit_code, std::string reason)> exit);
  ~Node() override;

  // Begins to work. The process listens at `address` by now.
  void Start(const std::string& address);
  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override {
    services_.Handle(method, std::move(request), std::move(call));
  }
  // SIGTERM: the coordinator takes its checkpoint first, then the worker gives its leases back, and
  // then the ps leaves as a ps does.
  void Drain(const std::string& signal);

  // For supervisors: ready if all roles are.
  HealthState Health() const;
  // For whoever watches: the metrics of all roles; the status of the job, "{}" where the
  // coordinator is elsewhere or has left; and what the listener says of a client that it refused.
  void AddMetrics(MetricSet& metrics) const;
  std::string PageJson();
  void NoteRefused(const std::string& sentence);

  ParameterServer& ps() { return *ps_; }
  // Null where it is elsewhere or has left.
  Coordinator* coordinator() { return coordinator_.get(); }
  // Has calls to the ps or the coordinator of this process handed to `before`, which hands them on:
  // for the simulator. Called before Start.
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
  const bool stays_;  // when the job is done
  ServiceByMethod services_;
  OwnNetwork network_;
  const Environment start_in_;  // of the coordinator's start, which asks others alone
  std::unique_ptr<ParameterServer> ps_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<CoordinatorStart> start_;

  struct Leaving {
    int code = 0;
    std::string reason;
  };
  std::map<Role, Leaving> left_;
  bool others_leave_ = false;   // because one has left
  std::string draining_;        // why; empty: it does not
  std::optional<Role> drains_;  // the role that was told to leave last
  std::set<Role> told_;         // roles that had to leave because another one had
  const Gate gate_;
};

}  // namespace paracord
