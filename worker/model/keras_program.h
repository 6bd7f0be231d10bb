// The Keras model as a GradientProgram: graph, loss and metrics over one device's operations. Made
// by BuildKerasProgram (gradient_program.h; keras_build.cc), run by keras_program.cc, its memory
// planned by keras_memory.cc. Owns the Ops and what lies on the device; used by one thread at a
// time. Knows nothing of preprocessing layers, which have been taken out.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "worker/model/device_copy.h"
#include "worker/model/gradient_program.h"
#include "worker/model/graph.h"
#include "worker/model/keras_json.h"
#include "worker/model/model_head.h"
#include "worker/model/model_summary.h"
#include "worker/ops/ops.h"

namespace paracord {

// Of the trace, a line for each of the device's lanes; from 1000 on there are the ps.
constexpr int64_t kDeviceTracks = 900;

class KerasProgram : public GradientProgram {
 public:
  // `before`: what `validate` shows above the graph's layers.
  KerasProgram(const Job& job, std::unique_ptr<Ops> ops, std::unique_ptr<Graph> graph,
               std::vector<LayerRow> before)
      : job_(job),
        accumulate_(std::max<uint32_t>(job.accumulate, 1)),
        ops_(std::move(ops)),
        graph_(std::move(graph)),
        before_(std::move(before)),
        parameter_copy_(*ops_),
        gradient_copy_(*ops_),
        input_copy_(*ops_),
        target_copy_(*ops_),
        weight_copy_(*ops_) {
    // Parameters come as layers need them, gradients go as they are done.
    callbacks_.needed = [this](size_t variable) { parameter_copy_.Send(variable); };
    callbacks_.final = [this](size_t variable) { gradient_copy_.Download(variable); };
  }

  // `input_columns`: of the schema's inputs, for each input of the graph.
  absl::Status Init(const ModelSpec& model, const Batch& schema, std::vector<size_t> input_columns,
                    Problems& problems);

  const std::vector<VariableSpec>& variables() const override { return graph_->variables(); }
  const std::vector<std::string>& metric_names() const override { return metric_names_; }

  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override;
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override;
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override;
  std::string Summary() const override {
    std::vector<LayerRow> rows = before_;
    for (LayerRow& row : graph_->Describe()) rows.push_back(std::move(row));
    return SummaryOf(rows);
  }
  std::string Memory() const override;
  int64_t MultiplyAdds() const override {
    int64_t all = 0;
    for (const LayerRow& row : graph_->Describe()) all += row.multiply_adds;
    return all;
  }

 private:
  // Where the memory is not the host's: finds out what is needed and takes it, before anything is
  // computed. RESOURCE_EXHAUSTED says of what there is too much.
  absl::Status PlanMemory(const Batch& schema);
  absl::Status Rehearse(const Batch& schema);
  absl::Status PrepareAnother();
  std::vector<MemoryRow> MemoryRows() const;
  // Of the usual batch, computed at a time.
  int64_t SliceExamples() const {
    return std::max<int64_t>((job_.batch + accumulate_ - 1) / accumulate_, 1);
  }
  absl::Status CheckBatch(const Batch& batch, bool with_targets) const;
  absl::Status CheckIds(const Batch& batch) const;
  absl::Status BindParameters(ConstTensors values);
  absl::Status BindGradients(MutableTensors gradients);
  absl::Status BindBatch(const Batch& batch, bool with_targets);
  bool InputsFinite(const Batch& batch) const;
  void HideRows(const Batch& batch, std::vector<float>& values) const;
  // A run over examples [first, first + count) of the batch.
  GraphCall Slice(const Batch& batch, int64_t first, int64_t count, uint64_t key);
  // On the host, of the call's examples; null: there is none.
  absl::StatusOr<const float*> Mask(const ModelHead& head, int64_t examples);
  // By what the sum of a head's losses over all rows of a batch is to be divided.
  absl::StatusOr<std::vector<double>> Divisors(const Batch& batch, uint64_t key, int64_t slices);
  absl::Status HeadLoss(size_t index, const Batch& batch, const GraphCall& call, double each,
                        bool gradient, double* sum);
  absl::Status AddMetrics(const ModelHead& head, const Batch& batch, const GraphCall& call,
                          std::vector<MetricState>& to, size_t& at);

  const Job job_;
  const int64_t accumulate_;
  const std::unique_ptr<Ops> ops_;
  const std::unique_ptr<Graph> graph_;  // before ops_ goes
  const std::vector<LayerRow> before_;
  std::vector<Column> inputs_schema_;
  std::vector<size_t> input_columns_;  // of each input of the graph
  std::vector<ModelHead> heads_;
  std::vector<std::string> output_names_;
  std::vector<std::string> metric_names_{"loss"};
  std::vector<MemoryRow> memory_;  // of the plan
  MemoryPlan plan_;
  // Of a run. Pointers are of the device.
  DeviceCopy parameter_copy_, gradient_copy_, input_copy_, target_copy_, weight_copy_;
  VariableCallbacks callbacks_;
  std::vector<const float*> batch_inputs_, batch_targets_;  // of the whole batch
  std::vector<const float*> inputs_, parameters_;
  std::vector<float*> gradients_;
  std::vector<float> weights_, mask_, output_;
};

}  // namespace paracord
