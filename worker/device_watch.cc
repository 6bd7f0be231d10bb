#include "worker/device_watch.h"

#include <utility>

namespace paracord {
namespace {

class WatchedProgram : public GradientProgram {
 public:
  WatchedProgram(std::unique_ptr<GradientProgram> program,
                 std::function<void(const std::string&)> lost)
      : program_(std::move(program)), lost_(std::move(lost)) {}

  const std::vector<VariableSpec>& variables() const override { return program_->variables(); }
  const std::vector<std::string>& metric_names() const override { return program_->metric_names(); }
  std::vector<std::string> Outputs() const override { return program_->Outputs(); }
  std::string Summary() const override { return program_->Summary(); }
  std::string Doubt(const Batch& batch) const override { return program_->Doubt(batch); }
  absl::Status LookAt(const Batch& batch, LookupCounts& counts) override {
    return program_->LookAt(batch, counts);
  }
  std::string Memory() const override { return program_->Memory(); }
  Losses TakeLosses() override { return program_->TakeLosses(); }
  int64_t MultiplyAdds() const override { return program_->MultiplyAdds(); }
  bool host_memory() const override { return program_->host_memory(); }
  std::vector<uint32_t> BatchSizes() const override { return program_->BatchSizes(); }

  absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& batch) override {
    return program_->RowsOf(batch);
  }
  void UseRows(std::shared_ptr<const TableRows> rows) override {
    program_->UseRows(std::move(rows));
  }
  void OnGradient(std::function<void(size_t)> there) override {
    program_->OnGradient(std::move(there));
  }
  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override {
    auto result = program_->ComputeGradients(batch, batch_key, values, gradients);
    Look(result.status());
    return result;
  }
  size_t replicas() const override { return program_->replicas(); }
  absl::StatusOr<std::vector<double>> ComputeSum(std::span<const KeyedBatch> batches,
                                                 ConstTensors values, MutableTensors sum) override {
    auto result = program_->ComputeSum(batches, values, sum);
    Look(result.status());
    return result;
  }
  std::vector<MetricState> TakeTrainingMetrics() override {
    return program_->TakeTrainingMetrics();
  }
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override {
    absl::Status result = program_->Evaluate(batch, values, states);
    Look(result);
    return result;
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override {
    auto result = program_->Predict(batch, values);
    Look(result.status());
    return result;
  }

 private:
  void Look(const absl::Status& status) {
    if (!absl::IsDataLoss(status) || !lost_) return;
    std::exchange(lost_, nullptr)(std::string(status.message()));
  }

  const std::unique_ptr<GradientProgram> program_;
  std::function<void(const std::string&)> lost_;
};

}  // namespace

std::unique_ptr<GradientProgram> WatchDevice(std::unique_ptr<GradientProgram> program,
                                             std::function<void(const std::string& why)> lost) {
  return std::make_unique<WatchedProgram>(std::move(program), std::move(lost));
}

}  // namespace paracord
