// Trains in one session of a worker. Works on leases batch by batch: reads data and computes
// gradients on the executor, then exchanges with the ps. Also scores ranges of the test data. At
// most one exchange and one computation are under way. With `overlap`, while the gradients of a
// batch are exchanged, the next batch is computed on the values of the exchange before. With lanes
// an exchange asks for values that contain certain rounds; if the ps do not have these values yet,
// the trainer turns to lanes that the coordinator has leased meanwhile, or pulls again. In
// synchronous training the trainer pushes a batch, even a rejected batch, only after it has
// received values with exactly the rounds before the batch's round. Several devices compute lanes
// of a round side by side; the lanes are pushed one after another, or as sums of runs (RunLanes in
// worker/computation.h). Talks to the ps through the ParameterSession, and to the coordinator
// through callbacks. Owned by the Worker, used on the event loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/environment.h"
#include "common/gate.h"
#include "program/workload.h"
#include "proto/paracord.pb.h"
#include "worker/computation.h"
#include "worker/lease_queue.h"
#include "worker/parameter_session.h"
#include "worker/round_wait.h"
#include "worker/score_records.h"
#include "worker/table_rows.h"
#include "worker/trained_log.h"
#include "worker/worker_figures.h"

namespace paracord {

struct TrainerCallbacks {
  std::function<void(const LeaseReport&)> report;
  std::function<void(const EvaluationReport&)> evaluated;
  std::function<void()> wants_task;  // called when WantsTask() is true
};

// What has happened since the last TakeCounters. The members are fields of WorkRequest.
struct StepCounters {
  uint64_t computed = 0;
  uint64_t duplicates = 0;
  uint64_t samples = 0;
  double loss_sum = 0;
  uint64_t staleness_sum = 0;
  double compute_seconds = 0;
  double waited_seconds = 0;
  GradientProgram::Losses program = {};
  TrainedLog trained = {};
};

struct TrainerOptions {
  bool overlap = false;               // the job's `overlap`
  bool keeps_residuals = false;       // TransferOptions::keeps_residuals
  bool exact_values = true;           // training pulls float32 values, as an evaluation does
  uint32_t staleness = 0;             // with lanes: how many rounds the values may lack
  bool sync = false;                  // training is synchronous
  std::optional<double> backup = {};  // the factor of the job's `backup`
  // With `sync`: rounds are clipped by norms that workers carry between ps (norms_carrier.h). After
  // a push, a worker asks for values that contain the pushed round until the ps have these values,
  // even if no lease is left.
  bool clips_rounds = false;
  // With `sync` and several devices: pushes sums of runs of lanes, instead of each lane alone.
  bool adds_lanes = false;
  std::shared_ptr<WorkerFigures> figures = std::make_shared<WorkerFigures>();
};

class Trainer {
 public:
  Trainer(TrainerOptions options, DataPlan plan, std::shared_ptr<Workload> workload,
          std::unique_ptr<ParameterSession> parameters, Environment environment,
          TrainerCallbacks callbacks);

  // Takes new leases and, with lanes, extensions of leases. The leases of one reply must come in
  // one call, so that those of one round can be computed side by side.
  void Take(std::span<const Lease> leases);
  void Take(const Lease& lease) { Take({&lease, 1}); }
  void Take(const EvaluationLease& lease);
  // Whether no lease is at hand and nothing is under way, except asking whether silent ps live.
  bool Idle() const;
  // Whether a pull waits for lanes of other workers.
  bool Waits() const { return rounds_.waits(); }
  // Returns RoundWait::Late: lanes of other workers, which this worker may compute, too.
  std::vector<uint32_t> Late() const { return rounds_.Late(environment_.loop.NowMs()); }
  // Whether the trainer could begin a further lease now or soon.
  bool WantsTask() const;
  // Gives back the leases and calls `drained`, once the batch under way is done.
  void Drain(std::function<void()> drained);
  StepCounters TakeCounters();
  // Names, for people, the ps or the lanes for which exchanges have waited long; "": none.
  std::string WaitsFor() const;
  // Returns the ids of the leases and of the evaluation ranges at hand.
  std::vector<uint64_t> Holds() const;

 private:
  // Lanes of a round in ascending order, which are computed side by side.
  using Wave = std::vector<std::shared_ptr<Computation>>;

  void Next();
  void StepLease();
  Wave NextWave() const;
  std::shared_ptr<Computation> TakeComputed(const BatchId& batch);
  void Look(Wave wave);
  void PullAndCompute(const Wave& wave);
  void WithValues(std::vector<BatchId> batches, const std::vector<SharedRows>& rows,
                  std::function<void()> then);
  void Ask(ExchangeOrder order, std::function<void(const absl::Status&)> failed,
           std::function<void()> then);
  void Outrun(const std::string& message);
  void AwaitRound();
  void Learn(const Computation& computation);
  void LookAhead();
  // For how many of the next batches an exchange brings rows of tables. With overlap the next batch
  // is computed before the exchange has ended, so the batch after the next needs rows, too.
  size_t batches_ahead() const { return computes_ahead() ? 2 : devices_; }
  bool computes_ahead() const { return options_.overlap && devices_ == 1; }
  std::vector<SharedRows> RowsFor(const std::vector<BatchId>& batches) const;
  std::vector<BatchId> NotComputed(uint32_t run) const;
  void Compute(const Wave& wave, std::function<void()> done);
  void Computed(const std::shared_ptr<Computation>& computation);
  void GiveUp(const Computation& computation, Problem problem, const std::string& message);
  void Encode(const std::shared_ptr<Computation>& computation);
  void Ready(const Computation& computation);
  void Push(const BatchId& batch, const Computation* computation);
  void PushOneByOne(const BatchId& batch);
  bool MayComputeAhead(const std::vector<BatchId>& following) const;
  void ComputeAhead(const BatchId& batch);
  void DropAhead();
  void Pushed(const BatchId& batch, uint32_t lanes, bool rejected, const ExchangeResult& result);
  void Count(uint32_t lanes, const ExchangeOutcome& outcome);
  void Progress(const ExchangeOutcome& outcome);
  void Finish(Problem problem, const std::string& message);
  void EndLease(Problem problem, const std::string& message);
  void FailExchange(const absl::Status& error, bool pushed);
  void LoseParameters(const std::string& message);
  void GiveBackAll();
  void AskWhetherTheyAnswer();
  void Report(bool ended, Problem problem, const std::string& message);
  void StartEvaluation();
  void RunEvaluation();
  void ScoreRows(const std::shared_ptr<ScoredRange>& range);
  void Scored(const EvaluationReport& report);
  void Exchange(ExchangeOrder order, const std::shared_ptr<StepArrays>& step,
                ParameterSession::DoneFn done);

  const TrainerOptions options_;
  const DataPlan plan_;
  const std::shared_ptr<Workload> workload_;
  const std::unique_ptr<ParameterSession> parameters_;
  const Environment environment_;
  const TrainerCallbacks callbacks_;
  const bool tables_;     // the model has tables
  const size_t devices_;  // how many devices compute side by side

  LeaseQueue leases_;
  RoundWait rounds_;
  std::vector<TrainedBatch> under_way_;  // for each lane of the push under way
  std::deque<EvaluationLease> evaluations_;
  bool busy_ = false;    // a batch, an evaluation, or ParameterSession::Open is under way
  bool pulled_ = false;  // the last exchange has brought values to train on
  std::optional<uint64_t> evaluated_epoch_;  // the values were pulled to evaluate this epoch
  std::shared_ptr<Computation> ahead_;       // with overlap: of the batch after the exchanged batch
  std::deque<std::shared_ptr<Computation>> computed_;  // of the last wave, yet to be pushed
  std::optional<uint64_t> one_by_one_;  // RoundWait::StateFor lanes that must not be added up
  std::optional<uint64_t> awaits_;      // with clips_rounds: the state that has the pushed round
  std::optional<std::string> lost_;  // with lanes: why some ps does not answer; nullopt: all answer
  std::function<void()> drained_;
  RowsAhead rows_ahead_;
  StepCounters counters_;
  BadRecordNames bad_records_;
  const Gate gate_;
};

}  // namespace paracord
