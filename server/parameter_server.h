// Serves the calls of the service ParameterServer: decodes calls, checks fences (run id,
// generation, boot id), and hands the work to the store and the snapshot writer. Owned by main or a
// Node. Many threads may call Handle at once. An Exchange is answered on the calling thread; after
// a wait for slow readers (store/pinned_bytes.h) on PsOptions::exchanges; after a wait for other
// workers' pushes (store/waiting_pulls.h) on the thread of the last one, or on the loop.
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
  std::string dir;             // the job's shared directory (DIR); absolute
  std::string host = "";       // the host of this process, for messages
  int64_t orphan_ms = 600000;  // timeouts.orphan_ms until a job is loaded
  uint64_t partition_bytes_max = kPartitionBytesMax;
  // The most bytes of replaced values and of 16-bit copies that slow readers hold; above, exchanges
  // wait for the readers.
  uint64_t pinned_bytes_max = uint64_t{2} << 30;
  uint64_t staged_bytes_max = uint64_t{1} << 30;  // bytes of gradients that come before their push
  // The budget for all memory of the ps; null: a budget that only the two limits above bound.
  std::shared_ptr<MemoryBudget> memory = nullptr;
  // Runs exchanges after a wait for slow readers, delayed neither by the loop nor by a snapshot;
  // null: the environment's executor.
  Executor* exchanges = nullptr;
  // Returns which client the listener last refused or cut, and why, for the coordinator; "": none.
  // Called on any thread. Null: the coordinator is told nothing.
  std::function<std::string()> refused_peer = nullptr;
  // When the job ends, the ps frees its partitions but keeps running until a drain, or until a
  // coordinator gives the job more to do. For supervisors that restart a process whatever its exit
  // code.
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

  // Called on SIGTERM, on the loop: asks the coordinator for a checkpoint, and leaves when that is
  // committed or after timeouts.drain_ms; at once without a coordinator or partitions.
  void Drain();

  // Called on the loop when the worker in the same process has left with this exit code, which no
  // restart would change. If then no coordinator calls for 3 s, and the ps has no partitions, the
  // process has no place in the cluster, and the ps leaves with the worker's code.
  void LeaveUnlessPlaced(int code, const std::string& reason);

  // For supervisors. On the loop.
  HealthState Health() const;
  // For monitoring. Any thread.
  void AddMetrics(MetricSet& metrics) const;

  // For tests and the simulator. `content`: null while the ps holds nothing.
  std::shared_ptr<const PartitionSet> content() const;
  uint64_t generation() const;  // 0: never adopted
  const std::string& boot_id() const;

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;  // work under way has weak pointers to Impl
};

}  // namespace paracord
