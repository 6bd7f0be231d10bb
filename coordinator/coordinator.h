// The coordinator's shell: turns calls, answers, timers and file results into events for the core
// and carries its effects out. Owned by main. All of it runs on the loop; Handle, which may come
// from any thread, posts to it. Files are touched on the executor, in order.
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
  std::vector<std::string> accept_changes = {};  // files of its program that may differ on resume
  std::vector<std::string> ps_addresses;         // index: ps
  std::vector<std::string> workers = {};         // tasks, as in CoreOptions
  bool nodes = false;                            // see CoreOptions
  int64_t agree_ms = 2000;                       // the same
  std::string dir;                               // shared DIR of the job; absolute
  std::string host = "";                         // on which this runs, for messages
  bool charts = false;                           // to be written to DIR/tensorboard
  bool insecure = false;                         // strangers may call too; the status says so
  // When the own certificate expires, since 1970; null without one. For the status.
  std::function<int64_t()> certificate_expires_s = nullptr;
  bool keep_job = false;  // a job in DIR that cannot become this one goes on
};

class Coordinator : public Service {
 public:
  // `exit` is called once, on the loop: the process should end with this code. While somebody
  // watches (PageJson), it comes late enough for them to be told how the job has ended.
  Coordinator(CoordinatorOptions options, Environment environment,
              std::function<void(int exit_code, std::string reason)> exit);

  // Reads DIR and begins; exits where the job cannot begin or go on here. Storage that may recover
  // (full, input and output errors) is tried again for timeouts.start_s. `address` is written to
  // DIR, for `paracord status --dir`; "": it is not.
  void Start(std::string address);

  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override;
  void Drain(const std::string& signal);  // SIGTERM or SIGINT; call on the loop

  // For supervisors: ready as soon as the job's directory has been read. On the loop.
  HealthState Health() const;
  // For whoever watches, on the loop: what `paracord status` shows, with the curves until now, the
  // newest events and the largest partitions; and the same as metrics.
  std::string PageJson();
  void AddMetrics(MetricSet& metrics) const;
  // Adds a listener's report of a refused client to the status. On the loop.
  void NoteRefused(const std::string& sentence);

  // Until Start: as given.
  const CoordinatorOptions& options() const { return options_; }
  // For tests and the simulator.
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
  // Runs `work` on the executor and feeds what it returns.
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
  std::optional<Exit> exit_with_;      // from then on
  std::optional<int64_t> watched_ms_;  // when somebody who watches asked last
  std::shared_ptr<EventFile> events_;  // used on the executor
  bool charts_failed_ = false;
  size_t evaluations_charted_ = 0;
  int64_t charted_ms_ = 0;
  History history_;
  std::optional<int64_t> storage_awaited_since_ms_;
  std::string storage_problem_;                 // for which it waits
  std::shared_ptr<DirStart> start_;             // used on the executor
  std::shared_ptr<CheckpointRemover> remover_;  // the same
  const Gate gate_;
};

}  // namespace paracord
