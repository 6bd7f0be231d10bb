// A trainer with lanes, whose exchanges the test answers.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fakes.h"
#include "tests/worker/plain_parts.h"
#include "worker/trainer.h"

namespace paracord {

// Keeps the exchange in progress until the test answers.
class KeptExchange : public ParameterSession {
 public:
  void Open(std::function<void()> done) override { done(); }
  bool Has(const SharedRows&) const override { return true; }
  std::shared_ptr<StepArrays> Begin(const SharedRows&, uint32_t) override { return arrays; }
  void End() override {}
  void GiveUp(const StepArrays&) override {}
  void Exchange(ExchangeOrder order, const std::shared_ptr<StepArrays>&, DoneFn done) override {
    CHECK(done_ == nullptr);
    order_ = std::move(order);
    done_ = std::move(done);
  }
  HeldValues values() const override { return {}; }
  std::string WaitsFor() const override { return ""; }

  // Returns the exchange in progress: "push LANE.BATCH for STATE", for a run "LANE to LANE", or
  // "pull for STATE"; "" if none.
  std::string UnderWay() const {
    if (done_ == nullptr) return "";
    const std::string what = order_.batch.has_value()
                                 ? absl::StrCat(order_.rejected ? "reject " : "push ", Lanes(), ".",
                                                order_.batch->batch())
                                 : "pull";
    return order_.state.has_value() ? absl::StrCat(what, " for ", *order_.state) : what;
  }
  void Answer(const ExchangeResult& result) {
    REQUIRE(done_ != nullptr);
    std::exchange(done_, nullptr)(result);
  }
  const ExchangeOrder& order() const { return order_; }

  std::shared_ptr<StepArrays> arrays = std::make_shared<NoArrays>();  // returned for every step

 private:
  std::string Lanes() const {
    const uint64_t first = order_.batch->split();
    if (order_.lanes == 1) return absl::StrCat(first);
    return absl::StrCat(first, " to ", first + order_.lanes - 1);
  }

  ExchangeOrder order_;
  DoneFn done_;
};

// Twelve batches an epoch in three lanes (or as many as a test wants) and four rounds.
struct RoundsFixture {
  explicit RoundsFixture(uint32_t staleness = 0, bool overlap = false)
      : RoundsFixture(TrainerOptions{.overlap = overlap, .staleness = staleness}) {}
  // `examples`: in each batch. `devices`: each computes one batch at a time. `sum`: of the devices.
  explicit RoundsFixture(TrainerOptions options, uint32_t lanes = 3, size_t devices = 1,
                         std::unique_ptr<GradientProgram> program = nullptr, uint32_t examples = 1,
                         std::shared_ptr<DeviceSum> sum = nullptr) {
    const auto workload = std::make_shared<Workload>();
    workload->program = program != nullptr ? std::move(program) : std::make_unique<NoVariables>();
    if (devices > 1) {
      std::vector<std::unique_ptr<GradientProgram>> others;
      while (others.size() + 1 < devices) others.push_back(std::make_unique<NoVariables>());
      workload->devices = std::make_unique<LaneDevices>(*workload->program, std::move(others),
                                                        CrossDeviceOps::kAuto, std::move(sum));
    }
    auto one = std::make_unique<OneExample>();
    batch = &one->batch;
    workload->feed = std::move(one);
    DataPlan plan;
    plan.set_records(uint64_t{4} * lanes * examples);
    plan.set_batch(examples);
    plan.set_lanes(lanes);
    plan.set_split_batches(4);
    auto kept = std::make_unique<KeptExchange>();
    ps = kept.get();
    TrainerCallbacks callbacks;
    callbacks.report = [this](const LeaseReport& report) {
      reports.push_back(absl::StrCat(
          report.lease(), report.ended() ? " ended at " : " at ", report.next(),
          report.problem() == PROBLEM_NONE ? "" : " " + Problem_Name(report.problem())));
    };
    callbacks.wants_task = [this] { ++wanted; };
    callbacks.evaluated = [this](const EvaluationReport& report) {
      reports.push_back(
          absl::StrCat("evaluation ", report.lease(), " ", Problem_Name(report.problem())));
    };
    options.figures = figures;
    trainer.emplace(options, plan, workload, std::move(kept),
                    Environment{loop, network, files, executor, random}, std::move(callbacks));
  }
  static Lease Lane(uint64_t id, uint64_t lane, uint32_t first, uint32_t end) {
    Lease lease;
    lease.set_id(id);
    lease.set_split(lane);
    lease.set_first_batch(first);
    lease.set_end_batch(end);
    lease.set_proof(absl::StrCat("proof of lane ", lane));
    return lease;
  }
  // The ps answer with values after `ms`. Computation then runs to its end.
  void Values(int64_t ms = 1) {
    loop.Advance(ms);
    ps->Answer(Entered());
    loop.RunPosted();
  }
  // The ps answer that lanes are missing.
  void Waits(std::vector<uint32_t> missing, int64_t ms = 500) {
    loop.Advance(ms);
    ExchangeResult result = Entered();
    result.outcome.waits = true;
    result.outcome.missing = std::move(missing);
    ps->Answer(result);
    loop.RunPosted();
  }
  void Fail(const absl::Status& error) {
    ps->Answer({.error = error, .outcome = {}});
    loop.RunPosted();
  }
  ExchangeResult Entered() const {
    ExchangeResult result;
    if (ps->order().batch.has_value()) {
      result.outcome.applied = true;
      result.outcome.next = ps->order().batch->batch() + 1;
    }
    return result;
  }

  ManualLoop loop;
  ManualExecutor executor{loop};
  NoNetwork network;
  PosixFiles files;
  SeededRandom random{1};
  std::shared_ptr<WorkerFigures> figures = std::make_shared<WorkerFigures>();
  KeptExchange* ps = nullptr;
  Batch* batch = nullptr;  // every batch
  std::vector<std::string> reports;
  int wanted = 0;
  std::optional<Trainer> trainer;
};
using Said = std::vector<std::string>;

}  // namespace paracord
