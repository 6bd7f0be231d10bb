// A trainer asks in time for the table rows that its batches read.
#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "tests/fakes.h"
#include "tests/worker/plain_parts.h"
#include "worker/trainer.h"

namespace paracord {
namespace {

// A model with a table, in which batch k reads row k.
class RowProgram : public GradientProgram {
 public:
  RowProgram() {
    VariableSpec& table = variables_.emplace_back();
    table.add_shape(100);
    table.add_shape(1);
    table.set_trainable(true);
    table.mutable_table()->set_kind(TableSpec::FIXED);
  }
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  const std::vector<std::string>& metric_names() const override { return metric_names_; }
  absl::StatusOr<SharedRows> RowsOf(const Batch& batch) override {
    auto rows = std::make_shared<TableRows>();
    rows->ids = {{static_cast<uint64_t>(batch.inputs[0].values[0])}};
    return rows;
  }
  void UseRows(SharedRows rows) override { rows_ = std::move(rows); }
  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t, ConstTensors,
                                          MutableTensors) override {
    CHECK(rows_->ids[0][0] == static_cast<uint64_t>(batch.inputs[0].values[0]));
    return 0.5;
  }
  absl::Status Evaluate(const Batch&, ConstTensors, std::vector<MetricState>&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch&, ConstTensors) override {
    return absl::UnimplementedError("no prediction");
  }

 private:
  SharedRows rows_;
  std::vector<VariableSpec> variables_;
  std::vector<std::string> metric_names_{"loss"};
};

class RowFeed : public BatchFeed {
 public:
  explicit RowFeed(bool peeks) : peeks_(peeks) {}
  void Start(const DataPlan&) override {}
  absl::StatusOr<const Batch*> Get(const BatchId& id, std::span<const BatchId>) override {
    return &Make(id, batch_);
  }
  const Batch* Peek(const BatchId& id) override { return peeks_ ? &Make(id, next_) : nullptr; }

 private:
  static const Batch& Make(const BatchId& id, Batch& batch) {
    batch.examples = 1;
    batch.inputs = {{"", {}, {static_cast<float>(id.batch())}}};
    return batch;
  }
  const bool peeks_;
  Batch batch_, next_;
};

// Keeps requests until the test answers.
class AskedParameters : public ParameterSession {
 public:
  void Open(std::function<void()> done) override { done(); }
  bool Has(const SharedRows& rows) const override {
    return std::ranges::find(there_, rows) != there_.end();
  }
  std::shared_ptr<StepArrays> Begin(const SharedRows& rows, uint32_t) override {
    CHECK(Has(rows));
    reading_ = true;
    return std::make_shared<NoArrays>();
  }
  void End() override { reading_ = false; }
  void GiveUp(const StepArrays&) override {}
  void Exchange(ExchangeOrder order, const std::shared_ptr<StepArrays>&, DoneFn done) override {
    asked.push_back((order.batch ? "push " + std::to_string(order.batch->batch()) : "pull") + ":");
    for (const SharedRows& rows : order.rows) asked.back() += " " + std::to_string(rows->ids[0][0]);
    coming_ = order.rows;
    batch_ = order.batch;
    done_ = std::move(done);
  }
  HeldValues values() const override { return {}; }
  std::string WaitsFor() const override { return ""; }

  // Answers until there are no more requests.
  void AnswerAll(ManualLoop& loop) {
    loop.RunPosted();
    while (done_ != nullptr) {
      CHECK_FALSE(reading_);
      there_ = coming_;
      ExchangeResult result;
      result.outcome.applied = true;
      if (batch_.has_value()) result.outcome.next = batch_->batch() + 1;
      std::exchange(done_, nullptr)(result);
      loop.RunPosted();
    }
  }

  std::vector<std::string> asked;

 private:
  std::vector<SharedRows> there_, coming_;
  std::optional<BatchId> batch_;
  DoneFn done_;
  bool reading_ = false;
};

std::vector<std::string> AskedFor(bool overlap, bool peeks, const std::vector<uint32_t>& rejected) {
  ManualLoop loop;
  ManualExecutor executor{loop};
  NoNetwork network;
  PosixFiles files;
  SeededRandom random{1};
  const auto workload = std::make_shared<Workload>();
  workload->program = std::make_unique<RowProgram>();
  workload->feed = std::make_unique<RowFeed>(peeks);
  auto parameters = std::make_unique<AskedParameters>();
  AskedParameters& asked = *parameters;
  TrainerCallbacks callbacks;
  callbacks.report = [](const LeaseReport& report) { CHECK(report.problem() == PROBLEM_NONE); };
  callbacks.wants_task = [] {};
  Trainer trainer({.overlap = overlap}, {}, workload, std::move(parameters),
                  {loop, network, files, executor, random}, std::move(callbacks));
  Lease lease;
  lease.set_end_batch(4);
  for (const uint32_t batch : rejected) lease.add_rejected(batch);
  trainer.Take(lease);
  asked.AnswerAll(loop);
  CHECK(trainer.Idle());
  return asked.asked;
}

using Asked = std::vector<std::string>;

TEST_CASE("the rows of the next batch come with the exchange of this one") {
  CHECK(AskedFor(false, true, {}) ==
        Asked{"pull: 0", "push 0: 1", "push 1: 2", "push 2: 3", "push 3:"});
}

TEST_CASE("with overlap the rows of two batches come first, and then those of the next but one") {
  CHECK(AskedFor(true, true, {}) ==
        Asked{"pull: 0 1", "push 0: 2", "push 1: 3", "push 2:", "push 3:"});
}

TEST_CASE("rows that nobody could look at before are pulled by themselves") {
  const bool overlap = GENERATE(false, true);
  CHECK(AskedFor(overlap, false, {}) == Asked{"pull: 0", "push 0:", "pull: 1", "push 1:", "pull: 2",
                                              "push 2:", "pull: 3", "push 3:"});
}

TEST_CASE("a rejected batch is entered without rows, and the one after it pulls its own") {
  CHECK(AskedFor(false, true, {1}) ==
        Asked{"pull: 0", "push 0:", "push 1:", "pull: 2", "push 2: 3", "push 3:"});
}

}  // namespace
}  // namespace paracord
