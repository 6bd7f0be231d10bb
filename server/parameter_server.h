// Serves the calls of the service ParameterServer: decodes calls, checks fences (run id,
// generation, boot id), and hands the work to the store and the snapshot writer. Owned by main or a
// Node. Many threads may call Handle at once. An Exchange is answered on the calling thread; if it
// waited for slow readers (server/parked.h), on PsOptions::exchanges; if it waited for other
// workers' pushes (store/waiting_pulls.h), on the thread of the push that ended the wait, or on the
// loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/environment.h"
#include "common/memory_budget.h"
#include "common/rpc.h"
#include "config/limits.h"
#include "monitor/metric_set.h"
#include "net/health.h"

namespace paracord {

struct PartitionSet;

struct PsOptions {
  uint32_t index = 0;
  std::string dir;        // the job's shared directory (DIR); absolute
  std::string host = "";  // this process's host, named when the coordinator has another DIR
  // After how long without a coordinator the ps exits; timeouts.orphan_ms of a loaded job is used
  // instead.
  int64_t orphan_ms = 600000;
  uint64_t partition_bytes_max = kPartitionBytesMax;
  // The most bytes of replaced values, 16-bit copies and copied rows that replies may hold while
  // clients read them slowly; if they hold more, exchanges wait. Not used if `memory` is set.
  uint64_t pinned_bytes_max = uint64_t{2} << 30;
  // The most bytes of gradients that come ahead of their push. Not used if `memory` is set.
  uint64_t staged_bytes_max = uint64_t{1} << 30;
  // The budget for the memory of the ps; null: one with the two limits above and the default
  // MemoryBudget::Caps.
  std::shared_ptr<MemoryBudget> memory = nullptr;
  // Runs exchanges that waited for slow readers; null: the environment's executor.
  Executor* exchanges = nullptr;
  // Returns the newest sentence in the listener's log about a client that was refused or cut off;
  // "": none. The coordinator is told the sentence. Called on any thread; null: there is no such
  // listener.
  std::function<std::string()> refused_peer = nullptr;
  // When the job ends, the ps frees its partitions, but stays until Drain, and serves any job that
  // comes meanwhile. For supervisors that restart a process whatever its exit code.
  bool stay = false;
};

class ParameterServer : public Service {
 public:
  // `exit` is called at most once, on the loop: the process should end with this exit code.
  ParameterServer(PsOptions options, Environment environment,
                  std::function<void(int exit_code, std::string reason)> exit);
  ~ParameterServer() override;

  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override;

  // Called on SIGTERM, on the loop: asks the coordinator for a checkpoint, and leaves when the
  // checkpoint is committed or after timeouts.drain_ms. Without a coordinator or partitions the ps
  // leaves at once.
  void Drain();

  // Called on the loop when the worker in the same process has left with this exit code, which no
  // restart would change. If no coordinator calls in the next 3 s, and the ps has no partitions,
  // the cluster has no use for the process, and the ps leaves with the worker's code.
  void LeaveUnlessPlaced(int code, const std::string& reason);

  // For supervisors. On the loop.
  HealthState Health() const;
  // For monitoring. Any thread.
  void AddMetrics(MetricSet& metrics) const;

  // For tests and the simulator: null while the ps holds no partitions.
  std::shared_ptr<const PartitionSet> content() const;
  uint64_t generation() const;  // the generation that the ps obeys; 0: none yet
  const std::string& boot_id() const;

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;  // work under way has weak pointers to Impl
};

}  // namespace paracord
