// Two ps of a synchronous job and workers with its lanes, for tests. Each ps has one weight: the
// number of applied rounds. A ps answers calls when the test says so.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exchange/codec.h"
#include "exchange/state_gone.h"
#include "tests/fakes.h"
#include "tests/parts.h"
#include "tests/worker/plain_parts.h"
#include "worker/ps_session.h"
#include "worker/trainer.h"

namespace paracord {

constexpr uint32_t kSyncLanes = 2;
constexpr uint32_t kSyncRounds = 4;

class SyncPs {
 public:
  SyncPs(uint32_t partition, bool keeps_before)
      : partition_(partition), keeps_before_(keeps_before) {}

  void Arrive(const Link* from, const absl::Cord& request, ReplyFn done) {
    Message message{from, {}, 0, std::move(done)};
    const DecodedRequest decoded = DecodeExchangeRequest(request).value();
    message.header = decoded.header;
    for (const PieceView& piece : decoded.pieces) {
      const std::string bytes(piece.data);
      REQUIRE(bytes.size() == sizeof(float));
      memcpy(&message.gradient, bytes.data(), sizeof(float));
    }
    arrived_.push_back(std::move(message));
  }
  // Answers the calls that have arrived. Pulls of a later state wait.
  void Answer() {
    for (Message& message : std::exchange(arrived_, {})) {
      Enter(message);
      waiting_.push_back(std::move(message));
      Serve(/*over=*/false);
    }
  }
  // Ends the time of waiting pulls.
  void EndWaits() { Serve(/*over=*/true); }
  // Loses everything that a worker has sent.
  void Lose(const Link& from) {
    std::erase_if(arrived_, [&](const Message& message) { return message.from == &from; });
  }

  // Clips rounds by norm. The squares of partition p's mean are p + 1.5.
  void ClipByNorm() { clips_ = true; }

  uint64_t state() const { return state_; }
  // Returns the pushes as "LANE.BATCH OUTCOME".
  const std::vector<std::string>& entered() const { return entered_; }

 private:
  struct Message {
    const Link* from;
    ExchangeRequest header;
    float gradient = 0;
    ReplyFn done;
    PartitionState pushed = {};
  };

  bool whole() const { return sum_.size() == kSyncLanes; }
  void EndRound() {
    ++state_;
    sum_.clear();
    before_ = keeps_before_;
  }
  void TakeNorms(const RoundNorms& norms) {
    CHECK(clips_);
    if (!whole() || norms.round() != state_) return;
    CHECK(std::vector<double>(norms.squares().begin(), norms.squares().end()) ==
          std::vector<double>{1.5, 2.5});
    CHECK(norms.proof() == absl::StrCat("proof of ", norms.lease().split()));
    EndRound();
  }
  void TellSquares(PartitionState& state) const {
    if (!clips_ || (!whole() && state_ == 0)) return;
    state.set_partition(partition_);
    state.set_squares(partition_ + 1.5);
    state.set_squares_round(whole() ? state_ : state_ - 1);
  }
  void Enter(Message& message) {
    if (message.header.has_norms()) TakeNorms(message.header.norms());
    PartitionState& state = message.pushed;
    state.set_partition(partition_);
    state.set_updates(state_);
    if (!message.header.has_batch()) return;
    const BatchId& batch = message.header.batch();
    if (batch.batch() > state_) {
      state.set_outcome(PUSH_GAP);
    } else if (batch.batch() < state_ || sum_.contains(batch.split())) {
      state.set_outcome(PUSH_ALREADY_APPLIED);
    } else {
      if (!message.header.rejected()) {
        before_ = false;
        // A gradient is the state on which it was computed.
        CHECK(message.gradient == static_cast<float>(state_));
      }
      sum_.insert(batch.split());
      state.set_outcome(PUSH_TAKEN);
    }
    if (whole() && !clips_) {
      EndRound();
      state.set_outcome(PUSH_APPLIED);
    }
    const uint64_t next = sum_.contains(batch.split()) ? state_ + 1 : state_;
    state.set_next(static_cast<uint32_t>(next));
    state.set_updates(state_);
    entered_.push_back(
        absl::StrCat(batch.split(), ".", batch.batch(), " ", PushOutcome_Name(state.outcome())));
  }
  void Serve(bool over) {
    for (Message& message : std::exchange(waiting_, {})) {
      const std::optional<uint64_t> wanted =
          message.header.has_state() ? std::optional(message.header.state()) : std::nullopt;
      REQUIRE(message.header.pull_size() == 1);
      const bool has =
          !wanted.has_value() || *wanted == state_ || (*wanted + 1 == state_ && before_);
      if (has) {
        AnswerWith(message, wanted.value_or(state_));
      } else if (*wanted < state_) {
        message.done(StateGone(partition_, *wanted, state_, before_));
      } else if (over || (clips_ && whole())) {
        ExchangeReply reply;
        reply.set_waits(true);
        reply.set_norms_wanted(clips_ && whole());
        *reply.add_partitions() = message.pushed;
        TellSquares(*reply.mutable_partitions(0));
        message.done(Joined(EncodeExchange(reply, {})));
      } else {
        waiting_.push_back(std::move(message));
      }
    }
  }
  void AnswerWith(Message& message, uint64_t state) const {
    ExchangeReply reply;
    PartitionState& of = *reply.add_partitions() = message.pushed;
    of.set_updates(state);
    TellSquares(of);
    std::vector<PieceView> pieces;
    const PartitionPull& pull = message.header.pull(0);
    if (!pull.has_known_version() || pull.known_version() != state) {
      of.set_bytes(sizeof(float));
      const auto value = static_cast<float>(state);
      const std::string bytes(reinterpret_cast<const char*>(&value), sizeof(value));
      pieces.push_back({partition_, 0, absl::Cord(bytes)});
    }
    message.done(Joined(EncodeExchange(reply, std::move(pieces))));
  }

  const uint32_t partition_;
  const bool keeps_before_;
  bool clips_ = false;
  uint64_t state_ = 0;
  bool before_ = false;  // keeps the state before
  std::set<uint64_t> sum_;
  std::vector<std::string> entered_;
  std::vector<Message> arrived_, waiting_;
};

class SyncLink : public Link {
 public:
  explicit SyncLink(SyncPs& ps) : ps_(ps) {}
  void Call(std::string_view, Parts request, int64_t, ReplyFn done) override {
    ps_.Arrive(this, Joined(request), std::move(done));
  }
  const std::string& address() const override { return address_; }

 private:
  SyncPs& ps_;
  const std::string address_ = "unix:/ps";
};

// The gradient of both weights is the value of the first. The second must be equal.
class SyncProgram : public NoVariables {
 public:
  SyncProgram() {
    for (const char* name : {"a", "b"}) {
      VariableSpec& weight = variables_.emplace_back();
      weight.set_name(name);
      weight.add_shape(1);
      weight.set_dtype(FLOAT32);
      weight.set_trainable(true);
    }
  }
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t, ConstTensors values,
                                          MutableTensors gradients) override {
    CHECK(values[0][0] == values[1][0]);
    for (const std::span<float> gradient : gradients) gradient[0] = values[0][0];
    return 0.5;
  }

 private:
  std::vector<VariableSpec> variables_;
};

struct SyncCluster {
  explicit SyncCluster(bool keeps_before = true)
      : ps{SyncPs(0, keeps_before), SyncPs(1, keeps_before)} {
    for (uint32_t i = 0; i < 2; ++i) {
      session.add_ps()->set_boot_id(i == 0 ? "a" : "b");
      PartitionSpec& partition = *session.add_partitions();
      partition.set_id(i);
      partition.set_variable(i);
      partition.set_row_end(1);
      partition.set_ps(i);
    }
    DataPlan& plan = *session.mutable_plan();
    plan.set_records(kSyncLanes * kSyncRounds);
    plan.set_batch(1);
    plan.set_lanes(kSyncLanes);
    plan.set_split_batches(kSyncRounds);
  }

  struct OneWorker {
    explicit OneWorker(SyncPs* ps) : links{SyncLink(ps[0]), SyncLink(ps[1])} {}
    SyncLink links[2];
    std::vector<std::string> reports;
    std::optional<Trainer> trainer;
  };
  void ClipByNorm() {
    clips = true;
    for (SyncPs& each : ps) each.ClipByNorm();
  }
  // Starts a worker.
  std::unique_ptr<OneWorker> Start() {
    auto worker = std::make_unique<OneWorker>(ps);
    const auto workload = std::make_shared<Workload>();
    workload->program = std::make_unique<SyncProgram>();
    workload->feed = std::make_unique<OneExample>();
    const Environment environment{loop, network, files, executor, random};
    auto parameters = std::make_unique<PsSession>(
        PsSessionOptions{.task = "worker:0", .transfer = {}}, session, workload,
        std::vector<Link*>{&worker->links[0], &worker->links[1]}, environment,
        [](const std::string& why) { FAIL(why); });
    TrainerCallbacks callbacks;
    callbacks.report = [at = worker.get()](const LeaseReport& report) {
      at->reports.push_back(absl::StrCat(report.lease(), report.ended() ? " ended at " : " at ",
                                         report.next(), " ", Problem_Name(report.problem())));
    };
    callbacks.wants_task = [] {};
    callbacks.evaluated = [](const EvaluationReport&) {};
    worker->trainer.emplace(TrainerOptions{.sync = true, .clips_rounds = clips}, session.plan(),
                            workload, std::move(parameters), environment, std::move(callbacks));
    loop.RunPosted();
    return worker;
  }
  void Grant(OneWorker& worker, uint64_t id, uint64_t lane, uint32_t first) {
    Lease lease;
    lease.set_id(id);
    lease.set_split(lane);
    lease.set_first_batch(first);
    lease.set_end_batch(kSyncRounds);
    lease.set_proof(absl::StrCat("proof of ", lane));
    worker.trainer->Take(lease);
    loop.RunPosted();
  }
  void Answer(uint32_t i) {
    ps[i].Answer();
    loop.RunPosted();
  }
  void AnswerAll() {
    for (uint32_t i = 0; i < 2; ++i) Answer(i);
  }
  void EndWaits() {
    loop.Advance(100);
    for (SyncPs& each : ps) each.EndWaits();
    loop.RunPosted();
  }

  ManualLoop loop;
  ManualExecutor executor{loop};
  NoNetwork network;
  PosixFiles files;
  SeededRandom random{1};
  SyncPs ps[2];
  bool clips = false;
  Session session;
};

}  // namespace paracord
