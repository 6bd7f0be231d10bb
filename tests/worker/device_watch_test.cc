#include "worker/device_watch.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

class FailingProgram : public GradientProgram {
 public:
  explicit FailingProgram(absl::Status status) : status_(std::move(status)) {}
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  const std::vector<std::string>& metric_names() const override { return names_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t, ConstTensors,
                                          MutableTensors) override {
    return status_;
  }
  absl::Status Evaluate(const Batch&, ConstTensors, std::vector<MetricState>&) override {
    return status_;
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch&, ConstTensors) override {
    return status_;
  }
  absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch&) override { return status_; }
  void UseRows(std::shared_ptr<const TableRows> rows) override { used = std::move(rows); }
  size_t replicas() const override { return 3; }
  absl::StatusOr<std::vector<double>> ComputeSum(std::span<const KeyedBatch>, ConstTensors,
                                                 MutableTensors) override {
    return status_;
  }
  std::vector<uint32_t> BatchSizes() const override { return {7}; }
  std::string Doubt(const Batch&) const override { return "one label is odd"; }
  absl::Status LookAt(const Batch&, LookupCounts&) override { return status_; }

  std::shared_ptr<const TableRows> used;

 private:
  const absl::Status status_;
  std::vector<VariableSpec> variables_;
  std::vector<std::string> names_;
};

TEST_CASE("a lost device is told once, another error never") {
  for (const bool lost : {true, false}) {
    const absl::Status status = lost ? absl::DataLossError("gone") : absl::InternalError("odd");
    int told = 0;
    const auto program =
        WatchDevice(std::make_unique<FailingProgram>(status), [&](const std::string& why) {
          CHECK(why == "gone");
          ++told;
        });
    std::vector<MetricState> states;
    CHECK(program->ComputeGradients({}, 0, {}, {}).status() == status);
    CHECK(program->Evaluate({}, {}, states) == status);
    CHECK(program->Predict({}, {}).status() == status);
    CHECK(told == (lost ? 1 : 0));
  }
}

TEST_CASE("a device that is lost as several add up gradients is told, too") {
  int told = 0;
  const auto program = WatchDevice(std::make_unique<FailingProgram>(absl::DataLossError("gone")),
                                   [&](const std::string&) { ++told; });
  CHECK(program->replicas() == 3);
  CHECK(program->ComputeSum({}, {}, {}).status().message() == "gone");
  CHECK(told == 1);
}

TEST_CASE("the rows of tables are those of the program that is watched") {
  auto own = std::make_unique<FailingProgram>(absl::InternalError("odd"));
  FailingProgram& watched = *own;
  const auto program = WatchDevice(std::move(own), nullptr);
  const auto rows = std::make_shared<const TableRows>();
  program->UseRows(rows);
  CHECK(watched.used == rows);
  CHECK(program->RowsOf({}).status().message() == "odd");
}

TEST_CASE("a watched program answers for itself what a worker asks of its batches") {
  const auto program =
      WatchDevice(std::make_unique<FailingProgram>(absl::InternalError("odd")), nullptr);
  LookupCounts counts;
  CHECK(program->BatchSizes() == std::vector<uint32_t>{7});
  CHECK(program->Doubt({}) == "one label is odd");
  CHECK(program->LookAt({}, counts).message() == "odd");
}

}  // namespace
}  // namespace paracord
