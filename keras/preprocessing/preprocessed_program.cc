#include "keras/preprocessing/preprocessed_program.h"

#include <utility>

#include "common/status_macros.h"

namespace paracord {
namespace {

class PreprocessedProgram : public GradientProgram {
 public:
  PreprocessedProgram(std::unique_ptr<Preprocessor> preprocessor,
                      std::unique_ptr<GradientProgram> rest)
      : preprocessor_(std::move(preprocessor)), rest_(std::move(rest)) {}

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
    RETURN_IF_ERROR(preprocessor_->Run(batch, ready_));
    return rest_->ComputeGradients(ready_, batch_key, values, gradients);
  }
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override {
    RETURN_IF_ERROR(preprocessor_->Run(batch, ready_));
    return rest_->Evaluate(ready_, values, states);
  }
  absl::Status LookAt(const Batch& batch, LookupCounts& counts) override {
    RETURN_IF_ERROR(preprocessor_->Run(batch, ready_));
    preprocessor_->CountUnknown(counts);
    return rest_->LookAt(ready_, counts);
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override {
    RETURN_IF_ERROR(preprocessor_->Run(batch, ready_));
    return rest_->Predict(ready_, values);
  }

 private:
  const std::unique_ptr<Preprocessor> preprocessor_;
  const std::unique_ptr<GradientProgram> rest_;
  Batch ready_;  // its storage is kept from batch to batch
};

}  // namespace

std::unique_ptr<GradientProgram> MakePreprocessedProgram(std::unique_ptr<Preprocessor> preprocessor,
                                                         std::unique_ptr<GradientProgram> rest) {
  return std::make_unique<PreprocessedProgram>(std::move(preprocessor), std::move(rest));
}

}  // namespace paracord
