#include "worker/computation.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/trace.h"
#include "exchange/lane_sum.h"
#include "worker/problem.h"

namespace paracord {
namespace {

// Notes as nonfinite the first variable that is not `good`, among those not sent early.
template <class Good>
void Check(Computation& computation, const Workload& workload, const Good& good) {
  const std::vector<VariableSpec>& variables = workload.program->variables();
  for (size_t v = 0; v < variables.size() && computation.nonfinite == nullptr; ++v) {
    if (computation.step->added(v)) continue;
    if (!good(v)) computation.nonfinite = &variables[v];
  }
}

absl::StatusOr<double> ComputeGradients(Computation& computation, const Batch& batch,
                                        GradientProgram& program, uint64_t key) {
  StepArrays& step = *computation.step;
  const float factor = computation.factor;
  std::vector<bool> multiplied(program.variables().size(), factor == 1);
  const auto multiply = [&](size_t variable) {
    if (!multiplied[variable]) MultiplyBy(factor, step.gradients()[variable]);
    multiplied[variable] = true;
  };
  if (step.wants_early()) {
    program.OnGradient([&](size_t variable) {
      multiply(variable);
      if (computation.nonfinite != nullptr || step.Add(variable)) return;
      computation.nonfinite = &program.variables()[variable];
    });
  }
  absl::StatusOr<double> loss =
      program.ComputeGradients(batch, key, step.values(), step.gradients());
  if (step.wants_early()) program.OnGradient(nullptr);
  for (size_t v = 0; loss.ok() && v < multiplied.size(); ++v) multiply(v);
  return loss;
}

// The batch, which LookAtRows may have read already.
absl::StatusOr<const Batch*> Read(const Computation& computation, Workload& workload) {
  if (computation.batch_read != nullptr) return computation.batch_read;
  return workload.feed->Get(computation.batch, computation.upcoming);
}

}  // namespace

Problem Computation::problem(std::string& message) const {
  if (!data.ok()) {
    message = std::string(data.message());
    return ProblemOfBatch(data, PROBLEM_DATA);
  }
  if (!model.ok()) {
    message = std::string(model.message());
    return ProblemOfBatch(model, PROBLEM_SHAPE);
  }
  const std::string because = bad_input.empty() ? "" : "; " + bad_input;
  if (!std::isfinite(loss)) {
    message = absl::StrCat("the loss is ", loss, because);
    return PROBLEM_NONFINITE;
  }
  if (nonfinite != nullptr) {
    message = absl::StrCat("the gradient of ", nonfinite->name(), " is not finite", because);
    return PROBLEM_NONFINITE;
  }
  return PROBLEM_NONE;
}

void LookAtRows(Computation& computation, Workload& workload) {
  const absl::StatusOr<const Batch*> batch = Read(computation, workload);
  computation.data = batch.status();
  if (!batch.ok()) return;
  computation.batch_read = *batch;
  absl::StatusOr<SharedRows> rows = workload.program->RowsOf(**batch);
  computation.model = rows.status();
  if (!rows.ok()) return;
  computation.rows = *std::move(rows);
  LookAtNext(computation, workload);
}

void LookAtNext(Computation& computation, Workload& workload) {
  for (const BatchId& id : computation.next) {
    SharedRows& rows = computation.next_rows.emplace_back();
    const Batch* const batch = workload.feed->Peek(id);
    if (batch != nullptr) rows = workload.program->RowsOf(*batch).value_or(nullptr);
  }
}

void RunComputation(Computation& computation, Workload& workload, uint64_t key) {
  FAILPOINT("worker.computing");
  FAILPOINT(absl::StrCat("worker.batch.", computation.batch.epoch(), ".", computation.batch.split(),
                         ".", computation.batch.batch())
                .c_str());
  const int64_t asked = TraceBegin();
  const absl::StatusOr<const Batch*> batch = Read(computation, workload);
  TraceEnd("wait for data", asked);
  computation.data = batch.status();
  if (!batch.ok()) return;
  computation.examples = (*batch)->examples;
  computation.left_out = (*batch)->left_out;
  StepArrays& step = *computation.step;
  step.Prepare();
  workload.program->UseRows(computation.rows);
  const absl::StatusOr<double> loss =
      ComputeGradients(computation, **batch, *workload.program, key);
  computation.model = loss.status();
  computation.losses = workload.program->TakeLosses();
  if (!loss.ok()) return;
  computation.loss = *loss;
  Check(computation, workload, [&](size_t v) { return step.GradientFinite(v); });
  // A ReLU may have lost a NaN on its way to the loss.
  if (!std::isfinite(*loss) || computation.nonfinite != nullptr) {
    computation.bad_input = FirstNotFinite(**batch);
  }
  workload.clip.Apply(step.gradients());
  computation.metrics = workload.program->TakeTrainingMetrics();
  if (computation.encodes && std::isfinite(*loss)) EncodeComputation(computation, workload);
}

void EncodeComputation(Computation& computation, const Workload& workload) {
  Check(computation, workload, [&](size_t v) { return computation.step->Encode(v); });
}

}  // namespace paracord
