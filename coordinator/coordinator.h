// The shell of the coordinator: turns calls, answers, timers and file results into events for the
// core, and carries out the core's effects. Owned by main. Everything runs on the event loop,
// except that Handle may be called on any thread and posts to the loop. Files are read and written
// on the executor, in order.
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
  // Files of the user's program that may differ on resume.
  std::vector<std::string> accept_changes = {};
  std::vector<std::string> ps_addresses;  // index: ps
  std::vector<std::string> workers = {};  // task names, as in CoreOptions
  bool nodes = false;                     // see CoreOptions
  int64_t agree_ms = 2000;                // see CoreOptions
  std::string dir;                        // the job's shared directory (DIR); absolute
  std::string host = "";                  // the host of this process, for messages
  bool charts = false;                    // whether to write DIR/tensorboard
  bool insecure = false;                  // callers are not authenticated; the status warns of it
  // Returns when this process's certificate expires, in seconds since 1970, for the status; null
  // without a certificate.
  std::function<int64_t()> certificate_expires_s = nullptr;
  bool keep_job = false;  // if the job in DIR cannot become `job`, go on with the job in DIR
};

class Coordinator : public Service {
 public:
  // `exit` is called once, on the loop, when the process should end with `exit_code`. While
  // somebody polls PageJson, the call is delayed until the page has shown how the job ended.
  Coordinator(CoordinatorOptions options, Environment environment,
              std::function<void(int exit_code, std::string reason)> exit);

  // Reads DIR and begins; exits if the job cannot begin or go on in DIR. Storage errors that may
  // pass (disk full, I/O errors) are retried for timeouts.start_s. `address` is written to DIR for
  // `paracord status --dir`; "": it is not.
  void Start(std::string address);

  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override;
  void Drain(const std::string& signal);  // SIGTERM or SIGINT; call on the loop

  // For health checks: ready as soon as DIR has been read. On the loop.
  HealthState Health() const;
  // Both for monitoring, on the loop. PageJson returns what `paracord status` shows, with the
  // curves so far, the newest events and the largest partitions; AddMetrics adds the status as
  // metrics.
  std::string PageJson();
  void AddMetrics(MetricSet& metrics) const;
  // Adds a listener's report of a refused client to the status. On the loop.
  void NoteRefused(const std::string& sentence);

  // Until Start, the options given to the constructor; then `job` is the one that training resumes.
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
  std::optional<Exit> exit_with_;      // set once the core has ended the job
  std::optional<int64_t> watched_ms_;  // when PageJson was last called
  std::shared_ptr<EventFile> events_;  // used on the executor
  bool charts_failed_ = false;
  size_t evaluations_charted_ = 0;
  int64_t charted_ms_ = 0;
  History history_;
  std::optional<int64_t> storage_awaited_since_ms_;
  std::string storage_problem_;                 // the error that the start waits out
  std::shared_ptr<DirStart> start_;             // used on the executor
  std::shared_ptr<CheckpointRemover> remover_;  // used on the executor
  const Gate gate_;
};

}  // namespace paracord
