// The worker: finds the coordinator, learns the job, and takes part in one session after another. A
// session begins when the coordinator answers a join with the ps, the partitions and the data plan.
// A session ends when the coordinator says so or is lost, or when a ps leaves it. A worker needs
// only the coordinator's address, and may come and go at any time. Owned by main; everything runs
// on the event loop, except what the executor computes.
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
  std::string task;            // such as "worker:1"
  std::string coordinator;     // the coordinator's address
  std::string device = "cpu";  // for display, until the Workload names its device
  std::string dir;        // the job's directory, which shows whether the job is done; "": not known
  std::string host = "";  // the name of this machine, for the log
  // The worker leaves after so many ms without a coordinator. Once the worker knows the job,
  // TimeoutsSpec::orphan_ms counts instead.
  int64_t orphan_ms = 600000;
  uint64_t staged_push_bytes = kStagedPushBytes;  // StagedPushOptions::bytes
  // For supervisors that start every exited process again: when the job is done, the worker drops
  // data and model but does not exit until SIGTERM. If a coordinator comes whose job is not done,
  // the worker takes part again.
  bool stay = false;
};

class Worker {
 public:
  // `exit` is called once, on the event loop, when the process should end with `exit_code`.
  Worker(WorkerOptions options, OpenWorkloadFn open, Environment environment,
         std::function<void(int exit_code, std::string reason)> exit);

  void Start();
  // Called on the event loop after SIGTERM or SIGINT: the worker finishes its batch, gives back its
  // leases and leaves. `signal`: the signal's name.
  void Drain(const std::string& signal);

  // Ready during a session, and if the worker stays after the job is done. On the event loop.
  HealthState Health() const;
  // Adds figures for monitoring. Called on the event loop.
  void AddMetrics(MetricSet& metrics) const;

 private:
  void Join();
  void JoinAnswered(const absl::StatusOr<JoinReply>& reply);
  void JoinLater(int64_t delay_ms);
  void LookInDir();
  void CheckSameDir(const Session& session);
  void OtherRun(const std::string& run_id);
  void Open(const std::string& job_json);
  // Returns a link to each ps of the session. Keeps the link to a ps that has the same address and
  // boot id as in an earlier session.
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
  // The job has ended: the worker leaves or, with WorkerOptions::stay after kDone, stays.
  void End(ExitCode code, const std::string& reason);
  void Told(const Leave& leave);  // the coordinator has told the worker to leave
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
  // While the coordinator makes the worker wait, the worker joins again after 10 ms at first,
  // because a job may be about to begin; then each pause is twice the pause before, up to 200 ms.
  static constexpr int64_t kJoinSoonMs = 10;
  int64_t join_again_ms_ = kJoinSoonMs;
  bool other_dir_said_ = false;
  std::string last_said_;
  uint32_t unreadable_ = 0;  // calls in a row whose request or reply could not be parsed

  struct PsLink {
    std::string boot_id;
    std::unique_ptr<Link> link;
  };
  std::map<std::string, PsLink> ps_links_;  // key: address; kept between sessions
  std::unique_ptr<Trainer> trainer_;        // null: there is no session
  uint64_t session_ = 0;                    // the id of the session; 0: there is no session
  std::string run_id_;                      // the run id of the last session
  int64_t session_began_ms_ = 0;
  bool coordinator_lost_ = false;  // the worker finishes its leases, then joins again
  WorkReports reports_;
  bool waits_ = false;    // ps or lanes keep the worker waiting, and the worker has logged this
  std::string signal_;    // the signal after which the worker drains; "": it does not drain
  bool drained_ = false;  // the leases were given back
  bool ended_ = false;    // the job is done, and the worker stays
  bool exiting_ = false;
  const Gate gate_;
};

}  // namespace paracord
