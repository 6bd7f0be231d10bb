// Calls the coordinator's core like workers do, as the bytes say, with a ps that obeys: joins,
// false reports, holds, and passing time. Each call must be answered at most once, the status must
// always print, and grants must be bounded. The job has splits, then lanes with bounded staleness,
// then synchronous rounds.
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/fingerprint64.h"
#include "common/json_text.h"
#include "coordinator/core/core.h"
#include "coordinator/core/report.h"
#include "proto/protocol.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {
namespace {

enum class Kind { kSplits, kStaleness, kSync };

class Cluster {
 public:
  explicit Cluster(Kind kind) {
    CoreOptions options;
    options.job.name = "fuzz";
    options.job.model = JsonOf(R"({"class_name": "Sequential", "config": {"layers": []}})");
    options.job.train = {"npy", {{"features", "/f.npy"}, {"labels", "/l.npy"}}};
    options.job.loss = {"mean_squared_error"};
    options.job.optimizer = {"sgd"};
    options.job.batch = 10;
    if (kind == Kind::kSplits) {
      options.job.split_batches = 2;
    } else {
      options.job.guarantees.round_batches = 3;
    }
    if (kind == Kind::kStaleness) options.job.guarantees.staleness = 1;
    if (kind == Kind::kSync) {
      options.job.guarantees.consistency = "sync";
      options.job.guarantees.recovery = "rollback";
      options.job.guarantees.backup_factor = 2;
    }
    options.job.epochs = 2;
    options.ps_addresses = {"unix:/ps-0"};
    options.workers = {"worker:0", "worker:1"};
    options.boot_id = "c1";
    options.new_run_id = "run";
    options.dir = "/job";
    ps_.set_boot_id("ps");
    ps_.set_protocol(kProtocol);
    job_ = Fingerprint64(JobToJson(options.job));
    FoundInDir found;
    found.generation = 1;
    core_ = std::make_unique<CoordinatorCore>(std::move(options), std::move(found), now_);
    Feed(TickEvent());
  }

  void Run(Input& input) {
    for (int steps = 0; !input.empty() && !ended_ && steps < 60; ++steps) {
      switch (input.Number(5)) {
        case 0:
          Join(input);
          break;
        case 1:
        case 2:
          Work(input);
          break;
        case 3:
          Feed(WorkerHoldEvent{Call(), SessionOf(input)});
          break;
        case 4:
          Feed(WorkerHoldLostEvent{input.Number(255), SessionOf(input)});
          break;
        default:
          for (uint64_t ticks = input.Number(15); ticks > 0 && !ended_; --ticks) {
            now_ += kTickMs;
            Feed(TickEvent());
          }
      }
    }
    const Report report(core_->View(), now_);
    Demand(!JsonOf(report.StatusJson()).is_discarded(), "status is JSON");
    (void)report.TrainingChart();
    (void)EvaluationCharts(core_->View(), 0);
  }

 private:
  CallId Call() {
    asked_.insert(++call_);
    return call_;
  }
  void Answered(CallId call) { Demand(asked_.erase(call) == 1, "a call is answered once"); }

  uint64_t SessionOf(Input& input) {
    const uint64_t which = input.Number(255);
    return which < sessions_.size() ? sessions_[which] : which;
  }
  uint64_t LeaseOf(Input& input) {
    const uint64_t which = input.Number(255);
    return which < leases_.size() ? leases_[which] : which;
  }

  void Join(Input& input) {
    JoinRequest request;
    request.set_task("worker:" + std::to_string(input.Number(3)));
    request.set_boot_id("b" + std::to_string(input.Number(3)));
    request.set_protocol(kProtocol);
    const uint64_t how = input.Number(7);
    if (how == 0) request.set_error(std::string(input.Bytes(input.Number(255))));
    if (how == 1) (void)request.MergeFromString(std::string(input.Bytes(input.Number(255))));
    if (how > 1) Facts(*request.mutable_facts());
    if (how == 2) request.mutable_facts()->set_records(input.Number(UINT64_MAX));
    if (how == 3)
      request.mutable_facts()->mutable_variables(0)->add_shape(input.Number(UINT64_MAX));
    Feed(JoinEvent{Call(), std::move(request)});
  }
  void Facts(JobFacts& facts) const {
    facts.set_job(job_);
    facts.set_records(40);
    facts.set_fingerprint("files");
    facts.add_metric_names("loss");
    VariableSpec& variable = *facts.add_variables();
    variable.set_name("dense/bias");
    variable.add_shape(2000);
    variable.set_dtype(FLOAT32);
    variable.set_trainable(true);
    variable.mutable_initializer()->set_name("zeros");
  }

  void Work(Input& input) {
    WorkRequest request;
    const uint64_t raw = input.Number(255);
    if (raw % 8 == 7) (void)request.MergeFromString(std::string(input.Bytes(input.Number(255))));
    request.set_session(SessionOf(input));
    for (uint64_t reports = input.Number(3); reports > 0; --reports) {
      LeaseReport& report = *request.add_leases();
      report.set_lease(LeaseOf(input));
      report.set_next(static_cast<uint32_t>(input.Number(3)));
      report.set_ended(input.Number(255) % 2 == 0);
      report.set_problem(static_cast<Problem>(input.Number(8)));
    }
    request.set_want_task(raw % 2 == 0);
    request.set_leaving(raw % 16 == 5);
    if (raw % 4 == 1) {
      request.set_computed(input.Number(UINT64_MAX));
      request.set_samples(input.Number(UINT64_MAX));
      request.set_staleness_sum(input.Number(UINT64_MAX));
      request.set_loss_sum(static_cast<double>(input.Number(UINT64_MAX)) - 1e18);
      request.set_report(input.Number(255));
    }
    if (raw % 8 == 3) Tell(input, request);
    Feed(WorkEvent{Call(), std::move(request)});
  }

  // Reports batches as trained, possible and impossible ones.
  void Tell(Input& input, WorkRequest& request) {
    TrainedBatches& told = *request.add_trained();
    told.set_epoch(input.Number(3));
    told.set_split(input.Number(3));
    told.set_first_batch(static_cast<uint32_t>(input.Number(UINT32_MAX)));
    for (uint64_t batches = input.Number(3); batches > 0; --batches) {
      told.add_losses(static_cast<double>(input.Number(255)));
      if (input.Number(1) == 1) told.add_examples(static_cast<uint32_t>(input.Number(20)));
    }
    for (uint64_t metrics = input.Number(2); metrics > 0; --metrics) {
      MetricState& state = *told.add_metrics();
      state.set_kind(static_cast<MetricKind>(input.Number(16)));
      for (uint64_t v = input.Number(4); v > 0; --v) {
        state.add_values(static_cast<double>(input.Number(255)));
        if (input.Number(1) == 1) state.add_label_weights(1);
      }
    }
    request.add_bad_records(std::string(input.Bytes(input.Number(20))));
    for (uint64_t late = input.Number(4); late > 0; --late) {
      request.add_late(static_cast<uint32_t>(input.Number(5)));
    }
  }

  void Feed(Event event) {
    queue_.push_back(std::move(event));
    while (!queue_.empty()) {
      const Event next = std::move(queue_.front());
      queue_.pop_front();
      for (Effect& effect : core_->Step(now_, next)) {
        std::visit([this](auto& each) { Take(each); }, effect);
      }
    }
  }
  void Take(AnswerJoin& effect) {
    Answered(effect.call);
    if (effect.reply.has_session()) sessions_.push_back(effect.reply.session().id());
  }
  void Take(AnswerWork& effect) {
    Answered(effect.call);
    if (effect.reply.has_lease()) leases_.push_back(effect.reply.lease().id());
    for (const Lease& lane : effect.reply.lanes()) {
      Demand(lane.first_batch() < lane.end_batch(), "a lease of a lane has batches");
      leases_.push_back(lane.id());
    }
  }
  void Take(AnswerHold& effect) { Answered(effect.call); }
  void Take(AnswerScale& effect) { Answered(effect.call); }
  void Take(ClaimGeneration& effect) {
    queue_.push_back(GenerationClaimedEvent{effect.generation, absl::OkStatus()});
  }
  void Take(FindNewestGeneration& effect) {
    queue_.push_back(NewestGenerationEvent{core_->generation(), effect.obeyed});
  }
  void Take(WriteJobState&) { queue_.push_back(JobStateWrittenEvent{absl::OkStatus()}); }
  void Take(MakeRoundDirectory& effect) {
    queue_.push_back(RoundDirectoryMadeEvent{effect.round, absl::OkStatus()});
  }
  void Take(CommitRound& effect) {
    (void)ManifestToText(effect.manifest);
    queue_.push_back(RoundCommittedEvent{effect.round, absl::OkStatus()});
  }
  void Take(WriteSummary& effect) {
    Demand(!JsonOf(effect.contents).is_discarded(), "a summary is JSON");
    queue_.push_back(SummaryWrittenEvent{absl::OkStatus()});
  }
  void Take(Exit&) { ended_ = true; }
  void Take(CallPs& effect) {
    if (const auto* adopt = std::get_if<AdoptRequest>(&effect.request)) {
      ps_.set_generation(adopt->generation());
      ps_.set_coordinator_boot_id(adopt->coordinator_boot_id());
    } else if (const auto* load = std::get_if<LoadRequest>(&effect.request)) {
      Loaded(*load);
    } else if (std::holds_alternative<PsHoldRequest>(effect.request)) {
      return;
    } else if (std::holds_alternative<FinishRequest>(effect.request)) {
      return Answer(effect, FinishReply());
    } else if (std::holds_alternative<SnapshotRequest>(effect.request)) {
      SnapshotReply reply;
      reply.set_file("ps-0");
      *reply.mutable_partitions() = ps_.partitions();
      return Answer(effect, reply);
    }
    Answer(effect, ps_);
  }
  template <class T>
  void Take(T&) {}

  void Loaded(const LoadRequest& load) {
    ps_.set_run_id(load.fence().run_id());
    ps_.set_settings(PsSettings(ParseJob(load.job_json()).value()));
    if (load.keep()) return;
    ps_.clear_partitions();
    for (const PartitionSpec& partition : load.partitions()) {
      PartitionDescription& entry = *ps_.add_partitions();
      entry.set_id(partition.id());
      entry.set_healthy(true);
      entry.mutable_ledger();
    }
  }
  void Answer(const CallPs& effect, PsReply reply) {
    queue_.push_back(PsAnswerEvent{effect.ps, effect.tag, std::move(reply)});
  }

  int64_t now_ = 1000;
  uint64_t job_ = 0;
  PsDescription ps_;
  std::unique_ptr<CoordinatorCore> core_;
  std::deque<Event> queue_;
  CallId call_ = 0;
  std::set<CallId> asked_;
  std::vector<uint64_t> sessions_;
  std::vector<uint64_t> leases_;
  bool ended_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const Kind kind : {Kind::kSplits, Kind::kStaleness, Kind::kSync}) {
    Input input(data, size);
    Cluster cluster(kind);
    cluster.Run(input);
  }
  return 0;
}

}  // namespace paracord::fuzz
