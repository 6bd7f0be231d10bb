// The worker: finds the coordinator, learns the job, joins, and keeps one session after another
// going. Owned by main; everything runs on the loop except what the executor computes. It needs
// only the coordinator's address and may come and go at any time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/environment.h"
#include "common/exit_code.h"
#include "common/gate.h"
#include "common/log.h"
#include "config/job.h"
#include "net/health.h"
#include "program/workload.h"
#include "proto/paracord.pb.h"
#include "worker/coordinator_seen.h"
#include "worker/ps_session.h"
#include "worker/trainer.h"
#include "worker/work_reports.h"
#include "worker/worker_figures.h"

namespace paracord {

struct WorkerOptions {
  std::string task;            // "worker:1"
  std::string coordinator;     // address
  std::string device = "cpu";  // for display
  std::string dir;  // the job's directory, which says whether the job is done; empty: not known
  std::string host = "";       // the machine, for messages
  int64_t orphan_ms = 600000;  // without a coordinator, until the job's own timeouts are known
  uint64_t staged_push_bytes = kStagedPushBytes;
  // When the job is done, the worker drops data and model and stays, for supervisors that start
  // every exited process again. The worker leaves when told to, and works again when a coordinator
  // has more to do.
  bool stay = false;
};

class Worker {
 public:
  // `exit` is called once, on the loop: the process should end with this code.
  Worker(WorkerOptions options, OpenWorkloadFn open, Environment environment,
         std::function<void(int exit_code, std::string reason)> exit);

  void Start();
  // SIGTERM or SIGINT came: finish the batch, give back the lease, leave. On the loop.
  void Drain(const std::string& signal);

  // For supervisors: ready during a session and after the job is done. On the loop.
  HealthState Health() const;
  // For monitoring. On the loop.
  void AddMetrics(MetricSet& metrics) const;

 private:
  void Join();
  void JoinAnswered(const absl::StatusOr<JoinReply>& reply);
  void JoinLater(int64_t delay_ms);
  void LookInDir();
  void CheckSameDir(const Session& session);
  void OtherRun(const std::string& run_id);
  void Open(const std::string& job_json);
  // Connects to the session's ps. Keeps a connection that still leads to the same process.
  std::vector<Link*> LinksTo(const Session& session);
  void StartSession(const Session& session);
  void EndSession(const std::string& why);
  void Hold();
  void HoldAnswered(uint64_t session, const absl::StatusOr<WorkerHoldReply>& reply);
  void CoordinatorLost(const std::string& why);
  bool Finished() const;
  void Beat();
  void SendWork();
  void Call(WorkRequest request);
  void WorkAnswered(const WorkRequest& sent, const absl::StatusOr<WorkReply>& reply);
  std::string WaitsFor();
  bool Unreadable(const absl::Status& status);
  void SayOnce(const std::string& what);
  // The job has ended with this code: leaves, or stays with nothing.
  void End(ExitCode code, const std::string& reason);
  void Told(const Leave& leave);  // a coordinator's order to leave
  void Exit(ExitCode code, const std::string& reason);
  bool draining() const { return !signal_.empty(); }
  static constexpr int64_t kJoinAgainMs = 200;

  const WorkerOptions options_;
  const OpenWorkloadFn open_;
  const Environment environment_;
  const std::function<void(int, std::string)> exit_;
  const Logger log_;
  const std::string boot_id_;
  const std::shared_ptr<WorkerFigures> figures_ = std::make_shared<WorkerFigures>();
  std::unique_ptr<Link> coordinator_;

  std::optional<Job> job_;
  std::shared_ptr<Workload> workload_;
  std::string open_error_;
  bool opening_ = false;
  CoordinatorSeen seen_;
  // While the coordinator makes the worker wait, the worker joins again soon at first, as a job may
  // be about to begin, and then less and less often.
  static constexpr int64_t kJoinSoonMs = 10;
  int64_t join_again_ms_ = kJoinSoonMs;
  bool other_dir_said_ = false;
  std::string last_said_;
  uint32_t unreadable_ = 0;  // unreadable messages in a row, from a coordinator or to a coordinator

  struct PsLink {
    std::string boot_id;
    std::unique_ptr<Link> link;
  };
  std::map<std::string, PsLink> ps_links_;  // key: address; kept between sessions
  std::unique_ptr<Trainer> trainer_;        // the session; null: none
  uint64_t session_ = 0;
  std::string run_id_;  // the last session's
  int64_t session_began_ms_ = 0;
  bool coordinator_lost_ = false;  // finishes its leases, then joins again
  WorkReports reports_;
  bool waits_ = false;  // a ps keeps this worker waiting, and the worker has logged the wait
  std::string signal_;  // why it drains; empty: it does not
  bool drained_ = false;
  bool ended_ = false;  // the job is done, and the worker stays
  bool exiting_ = false;
  const Gate gate_;
};

}  // namespace paracord
