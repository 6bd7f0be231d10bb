#include "keras/preprocessing/preprocessed_program.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"

namespace paracord {
namespace {

// The batch for the rest of the model, and the rows read by it.
struct PreprocessedRows : TableRows {
  Batch ready;
  std::shared_ptr<const TableRows> of_rest;
};

class PreprocessedProgram : public GradientProgram {
 public:
  PreprocessedProgram(std::unique_ptr<Preprocessor> preprocessor,
                      std::unique_ptr<GradientProgram> rest)
      : preprocessor_(std::move(preprocessor)),
        rest_(std::move(rest)),
        has_tables_(std::ranges::any_of(rest_->variables(),
                                        [](const VariableSpec& v) { return v.has_table(); })) {}

  const std::vector<VariableSpec>& variables() const override { return rest_->variables(); }
  const std::vector<std::string>& metric_names() const override { return rest_->metric_names(); }
  std::string Summary() const override { return rest_->Summary(); }
  std::string Memory() const override { return rest_->Memory(); }
  std::string Doubt(const Batch& batch) const override { return rest_->Doubt(batch); }
  int64_t MultiplyAdds() const override { return rest_->MultiplyAdds(); }
  bool host_memory() const override { return rest_->host_memory(); }

  void OnGradient(std::function<void(size_t)> there) override {
    rest_->OnGradient(std::move(there));
  }
  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override {
    ASSIGN_OR_RETURN(const Batch* const ready, Ready(batch));
    return rest_->ComputeGradients(*ready, batch_key, values, gradients);
  }
  std::vector<MetricState> TakeTrainingMetrics() override { return rest_->TakeTrainingMetrics(); }
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override {
    ASSIGN_OR_RETURN(const Batch* const ready, Ready(batch));
    return rest_->Evaluate(*ready, values, states);
  }
  absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& batch) override {
    if (!has_tables_) return nullptr;
    auto rows = std::make_shared<PreprocessedRows>();
    RETURN_IF_ERROR(preprocessor_->Run(batch, rows->ready));
    ASSIGN_OR_RETURN(rows->of_rest, rest_->RowsOf(rows->ready));
    rows->ids = rows->of_rest->ids;
    rows->shards = rows->of_rest->shards;
    return rows;
  }
  void UseRows(std::shared_ptr<const TableRows> rows) override {
    rows_ = std::dynamic_pointer_cast<const PreprocessedRows>(rows);
    rest_->UseRows(rows_ == nullptr ? nullptr : rows_->of_rest);
  }
  absl::Status LookAt(const Batch& batch, LookupCounts& counts) override {
    RETURN_IF_ERROR(preprocessor_->Run(batch, ready_));
    preprocessor_->CountUnknown(counts);
    return rest_->LookAt(ready_, counts);
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override {
    ASSIGN_OR_RETURN(const Batch* const ready, Ready(batch));
    return rest_->Predict(*ready, values);
  }

 private:
  // Already computed if the batch's rows are in use.
  absl::StatusOr<const Batch*> Ready(const Batch& batch) {
    if (rows_ != nullptr) return &rows_->ready;
    RETURN_IF_ERROR(preprocessor_->Run(batch, ready_));
    return &ready_;
  }

  const std::unique_ptr<Preprocessor> preprocessor_;
  const std::unique_ptr<GradientProgram> rest_;
  const bool has_tables_;
  std::shared_ptr<const PreprocessedRows> rows_;
  Batch ready_;  // storage reused from batch to batch
};

}  // namespace

std::unique_ptr<GradientProgram> MakePreprocessedProgram(std::unique_ptr<Preprocessor> preprocessor,
                                                         std::unique_ptr<GradientProgram> rest) {
  return std::make_unique<PreprocessedProgram>(std::move(preprocessor), std::move(rest));
}

}  // namespace paracord
