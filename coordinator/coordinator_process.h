// Prepares and starts the Coordinator of a process: the flags that name the job, the coordinator's
// options, and a start that first waits for another coordinator of the job to leave. Used by the
// main functions of the coordinator and of a node.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/cluster.h"
#include "config/flags.h"
#include "coordinator/coordinator.h"
#include "coordinator/rival.h"
#include "security/credentials.h"

namespace paracord {

struct CoordinatorFlags {
  std::string job;
  std::vector<std::string> set, accept_changes;
  bool keep_job = false;

  void AddTo(Flags& flags);  // this object must outlive `flags`
};

// Where a coordinator runs.
struct CoordinatorPlace {
  std::string dir;   // the job's directory; absolute
  std::string host;  // the host of this process, shown to people after `dir`
  std::shared_ptr<Credentials> credentials;  // null: the process has no certificate
  bool insecure = false;
  // The devices of the worker in the same process, and whether they share each batch
  // (ClusterShape).
  uint32_t devices = 1;
  bool divides_batches = false;
};

// Reads the job, chooses its strategy, and takes the names of the workers from `cluster`.
// `ps_addresses` has the address of each ps, by index.
absl::StatusOr<CoordinatorOptions> ReadCoordinatorOptions(Files& files,
                                                          const CoordinatorFlags& flags,
                                                          const Cluster& cluster,
                                                          std::vector<std::string> ps_addresses,
                                                          const CoordinatorPlace& place);

// Starts a coordinator whose process listens at `address`. If another coordinator still leads the
// job after timeouts.drain_ms and a second, calls `exit` with kInUse instead. Used on the loop.
class CoordinatorStart {
 public:
  // `coordinator` must outlive this object.
  CoordinatorStart(Coordinator& coordinator, const Environment& environment, std::string address,
                   std::function<void(int exit_code, std::string reason)> exit);
  void Begin();

 private:
  Coordinator& coordinator_;
  const std::string address_;
  const std::function<void(int, std::string)> exit_;
  RivalCheck rival_;
};

}  // namespace paracord
