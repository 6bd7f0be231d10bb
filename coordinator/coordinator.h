// The shell of the coordinator: turns calls, answers, timers and file results into events for the
// core (CoordinatorCore), and carries out the effects that the core returns. Owned by main, or by
// the Node of a cluster without ps. All functions are called on the event loop, except Handle,
// which any thread may call and which posts to the loop. Files are read and written on the
// executor, in the order of the requests.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/environment.h"
#include "common/gate.h"
#include "common/log.h"
#include "common/rpc.h"
#include "coordinator/checkpoint_remover.h"
#include "coordinator/core/core.h"
#include "coordinator/dir_start.h"
#include "coordinator/event_file.h"
#include "coordinator/history.h"
#include "monitor/metric_set.h"
#include "net/health.h"

namespace paracord {

struct CoordinatorOptions {
  Job job;
  // Files of the user's program whose text may differ from what the job was last trained with.
  std::vector<std::string> accept_changes = {};
  std::vector<std::string> ps_addresses;  // the address of each ps, by its index
  // The worker tasks that the cluster names, such as "worker:0".
  std::vector<std::string> workers = {};
  bool nodes = false;  // whether worker N is also ps N
  // How long the facts of a new job's first worker wait for confirmation (CoreOptions::agree_ms).
  int64_t agree_ms = 2000;
  std::string dir;        // the job's shared directory (DIR); absolute
  std::string host = "";  // the host of this process, shown to people after DIR
  bool charts = false;    // whether to write TensorBoard's files to DIR/tensorboard
  bool insecure = false;  // callers are not authenticated; the status warns of it
  // When this process's certificate expires, in seconds since 1970; null without a certificate.
  std::function<int64_t()> certificate_expires_s = nullptr;
  // If the job in DIR cannot go on with the keys of `job`: true: the job in DIR goes on unchanged;
  // false: Start calls `exit`.
  bool keep_job = false;
};

class Coordinator : public Service {
 public:
  // `exit` is called at most once, on the loop, when the process should end with `exit_code`. If
  // PageJson was called in the last 3 s, the call of `exit` is delayed by 1.5 s, so that the page
  // shows how the job ended.
  Coordinator(CoordinatorOptions options, Environment environment,
              std::function<void(int exit_code, std::string reason)> exit);

  // Reads DIR, then leads the job. Calls `exit` if the job is done already, or if the job can
  // neither begin nor go on in DIR. Storage errors that may pass (such as a full disk or an I/O
  // error) are retried for timeouts.start_s. `address` is written to DIR for `paracord status
  // --dir`, unless `address` is empty.
  void Start(std::string address);

  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override;
  // Takes a checkpoint if training has begun, then calls `exit` with a reason that names `signal`.
  void Drain(const std::string& signal);

  // For health checks: ready once DIR has been read and this coordinator leads.
  HealthState Health() const;
  // The JSON of the status page: what `paracord status` shows, the curves so far, the newest log
  // lines and the largest partitions.
  std::string PageJson();
  // Adds the status as metrics.
  void AddMetrics(MetricSet& metrics) const;
  // Adds a listener's sentence about a refused client to the newest log lines of PageJson.
  void NoteRefused(const std::string& sentence);

  // The constructor's options; once DIR has been read, `job` is the one that training resumes.
  const CoordinatorOptions& options() const { return options_; }
  // For tests and the simulator: null until DIR has been read.
  const CoordinatorCore* core() const { return core_.get(); }

 private:
  void Feed(const Event& event);
  void Tick();
  void AddCertificate(nlohmann::json& status) const;
  void WriteCharts();
  void Remember();
  template <class Request, class EventType>
  void TakeCall(const absl::Cord& bytes, std::shared_ptr<ServerCall> call);
  bool SpeaksFor(const std::string& task, ServerCall& call) const;
  void TakeHold(const absl::Cord& bytes, std::shared_ptr<ServerCall> call);
  std::shared_ptr<ServerCall> ReleaseCall(CallId id);
  // Runs `work` on the executor and feeds the event that it returns to the core.
  void OnFiles(std::function<Event()> work);

  void CarryOut(AnswerJoin& effect);
  void CarryOut(AnswerWork& effect);
  void CarryOut(AnswerHold& effect);
  void CarryOut(AnswerScale& effect);
  void CarryOut(CallPs& effect);
  void CarryOut(ClaimGeneration& effect);
  void CarryOut(WriteJobState& effect);
  void CarryOut(FindNewestGeneration& effect);
  void CarryOut(MakeRoundDirectory& effect);
  void CarryOut(CommitRound& effect);
  void CarryOut(RemoveCheckpoints& effect);
  void CarryOut(RemoveUncommittedRound& effect);
  void CarryOut(WriteSummary& effect);
  void CarryOut(Log& effect);
  void CarryOut(Exit& effect);
  void LeaveWith(Exit exit);

  void TryToBegin();
  void BeginLater(const absl::Status& why);
  void Lead(DirStart::Begun begun);
  void CleanUp(uint64_t generation);

  CoordinatorOptions options_;
  std::string address_;
  const Environment environment_;
  const std::function<void(int, std::string)> exit_;
  const std::string boot_id_;
  const Logger log_;
  std::unique_ptr<CoordinatorCore> core_;
  std::vector<std::unique_ptr<Link>> links_;
  std::map<CallId, std::shared_ptr<ServerCall>> calls_;
  CallId last_call_ = 0;
  bool exiting_ = false;
  std::optional<Exit> exit_with_;
  std::optional<int64_t> watched_ms_;  // when PageJson was last called
  std::shared_ptr<EventFile> events_;  // used on the executor
  bool charts_failed_ = false;
  size_t evaluations_charted_ = 0;
  int64_t charted_ms_ = 0;
  History history_;
  std::optional<int64_t> storage_awaited_since_ms_;
  std::string storage_problem_;      // the newest storage error while Start retries; "": none
  std::shared_ptr<DirStart> start_;  // used on the executor
  std::shared_ptr<CheckpointRemover> remover_;  // used on the executor
  const Gate gate_;
};

}  // namespace paracord
