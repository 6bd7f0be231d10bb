#include "worker/computation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/trace.h"
#include "exchange/lane_sum.h"
#include "worker/problem.h"

namespace paracord {
namespace {

// Sets `nonfinite` to the first variable that is not `good`, among variables not sent early.
template <class Good>
void Check(Computation& computation, const Workload& workload, const Good& good) {
  const std::vector<VariableSpec>& variables = workload.program->variables();
  for (size_t v = 0; v < variables.size() && computation.nonfinite == nullptr; ++v) {
    if (computation.step->added(v)) continue;
    if (!good(v)) computation.nonfinite = &variables[v];
  }
}

absl::StatusOr<double> ComputeGradients(Computation& computation, const Batch& batch,
                                        GradientProgram& program, float factor) {
  StepArrays& step = *computation.step;
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
      program.ComputeGradients(batch, computation.key, step.values(), step.gradients());
  if (step.wants_early()) program.OnGradient(nullptr);
  for (size_t v = 0; loss.ok() && v < multiplied.size(); ++v) multiply(v);
  return loss;
}

// Returns the batch, which LookAtRows may have read. With several devices the batch is copied,
// since a feed lends a single batch at a time.
absl::StatusOr<const Batch*> Read(Computation& computation, Workload& workload) {
  if (computation.own_batch != nullptr) return computation.own_batch.get();
  if (computation.batch_read != nullptr) return computation.batch_read;
  absl::StatusOr<const Batch*> batch = workload.feed->Get(computation.batch, computation.upcoming);
  if (!batch.ok() || workload.devices == nullptr) return batch;
  computation.own_batch = std::make_shared<Batch>(**batch);
  return computation.own_batch.get();
}

// Reads the batch of a computation that is about to begin; null: the batch cannot be read.
const Batch* ReadToCompute(Computation& computation, Workload& workload) {
  FAILPOINT("worker.computing");
  FAILPOINT(absl::StrCat("worker.batch.", computation.batch.epoch(), ".", computation.batch.split(),
                         ".", computation.batch.batch())
                .c_str());
  const int64_t asked = TraceBegin();
  const absl::StatusOr<const Batch*> batch = Read(computation, workload);
  TraceEnd("wait for data", asked);
  computation.data = batch.status();
  if (!batch.ok()) return nullptr;
  computation.examples = (*batch)->examples;
  computation.left_out = (*batch)->left_out;
  computation.step->Prepare();
  return *batch;
}

// With `summed`, the device multiplies the gradients and adds up the gradients of all devices.
void ComputeOn(GradientProgram& program, const Batch& batch, Computation& computation,
               Workload& workload, bool summed = false) {
  const StepArrays& step = *computation.step;
  program.UseRows(computation.rows);
  const absl::StatusOr<double> loss =
      ComputeGradients(computation, batch, program, summed ? 1 : computation.factor);
  computation.model = loss.status();
  computation.losses = program.TakeLosses();
  if (!loss.ok()) return;
  computation.loss = *loss;
  if (!summed) Check(computation, workload, [&](size_t v) { return step.GradientFinite(v); });
  // A ReLU may have lost a NaN on its way to the loss.
  if (!std::isfinite(*loss) || computation.nonfinite != nullptr) {
    computation.bad_input = FirstNotFinite(batch);
  }
  workload.clip.Apply(step.gradients());
  computation.metrics = program.TakeTrainingMetrics();
}

bool CanBePushed(const Computation& computation) {
  std::string ignored;
  return computation.problem(ignored) == PROBLEM_NONE;
}

// Returns how many of the first lanes form a run, at least 1.
size_t RunLength(Lanes lanes) {
  const uint64_t first = lanes[0]->batch.split();
  size_t length = 1;
  while (2 * length <= lanes.size() && first % (2 * length) == 0) {
    const bool follow = std::ranges::all_of(lanes.subspan(length, length), [&](const auto& lane) {
      const auto place = static_cast<uint64_t>(&lane - lanes.data());
      return lane->batch.split() == first + place && CanBePushed(*lane);
    });
    if (!follow) break;
    length *= 2;
  }
  return length;
}

void AddUp(Lanes lanes, LaneDevices::Variables which, Workload& workload) {
  const TraceSpan span("add up");
  Computation& first = *lanes[0];
  std::vector<LaneGradients> gradients;
  for (const auto& lane : lanes) gradients.push_back({lane->step->gradients(), lane->rows});
  const LaneRowSums sums = workload.devices->AddUp(gradients, which);
  if (sums.rows != nullptr) first.step->UseRows(sums.rows);
  for (size_t v = 0; v < sums.values.size(); ++v) {
    std::ranges::copy(sums.values[v], first.step->gradients()[v].begin());
  }
  first.run.assign(lanes.begin() + 1, lanes.end());
  for (size_t v = 0; v < first.step->gradients().size(); ++v) {
    if (!first.step->GradientFinite(v)) first.sum_failed = true;
  }
}

// Has the program compute the lanes at once and add up the gradients. Returns false if the lanes
// must be computed one by one, because the program cannot add up these lanes, or because a result
// is an error or not finite and the lane at fault must be found.
bool ComputeRun(Lanes lanes, std::span<const Batch* const> batches, Workload& workload) {
  Computation& first = *lanes[0];
  GradientProgram& program = *workload.program;
  if (program.replicas() != lanes.size() || RunLength(lanes) != lanes.size()) return false;
  std::vector<KeyedBatch> keyed;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane]->factor != first.factor) return false;
    keyed.push_back({batches[lane], lanes[lane]->key});
  }
  const TraceSpan span("compute run");
  const StepArrays& step = *first.step;
  const absl::StatusOr<std::vector<double>> losses =
      program.ComputeSum(keyed, step.values(), step.gradients());
  if (absl::IsDataLoss(losses.status())) {
    for (const auto& lane : lanes) lane->model = losses.status();
    return true;
  }
  if (!losses.ok()) return false;
  bool finite = std::ranges::all_of(*losses, [](double loss) { return std::isfinite(loss); });
  for (size_t v = 0; v < step.gradients().size(); ++v) {
    MultiplyBy(first.factor, step.gradients()[v]);
    finite = finite && step.GradientFinite(v);
  }
  if (!finite) return false;
  for (size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane]->loss = (*losses)[lane];
  first.run.assign(lanes.begin() + 1, lanes.end());
  return true;
}

// Returns for how many of the first lanes the devices add up the gradients themselves; 0: for none.
size_t SummedOnDevices(Lanes lanes, Workload& workload) {
  const DeviceSum* const sum = workload.devices->sum();
  if (sum == nullptr || !CanBePushed(*lanes[0])) return 0;
  const size_t length = RunLength(lanes);
  return length > 1 && (length == lanes.size() || length == sum->devices()) ? length : 0;
}

// Computes the lanes side by side. The devices add up the gradients of the first `summed` lanes.
// Returns false if the sums are void.
bool ComputeLanes(Lanes lanes, std::span<const Batch* const> batches, size_t summed,
                  Workload& workload) {
  DeviceSum* const sum = summed == 0 ? nullptr : workload.devices->sum();
  const size_t adding = sum == nullptr ? 0 : sum->devices();
  std::vector<LaneShare> shares;
  for (const auto& lane : lanes.first(summed)) shares.push_back({lane->examples, lane->factor});
  if (sum != nullptr) sum->Begin(shares);
  std::vector<absl::Status> completed(adding);
  const auto compute = [&](size_t device, GradientProgram& program) {
    if (device < lanes.size() && batches[device] != nullptr) {
      ComputeOn(program, *batches[device], *lanes[device], workload, device < summed);
    }
    if (device < adding) completed[device] = sum->Complete(device);
  };
  workload.devices->ForLanes(std::max(lanes.size(), adding), compute);
  return std::ranges::all_of(completed, [](const absl::Status& each) { return each.ok(); });
}

// Takes over the devices' sum of a run. If a lane failed, the lanes are computed one by one, as
// after a sum that is not finite. If the devices are lost, no lane counts.
void TakeSum(Lanes lanes, bool valid, Workload& workload) {
  const auto lost =
      std::ranges::find_if(lanes, [](const auto& lane) { return absl::IsDataLoss(lane->model); });
  if (lost != lanes.end()) {
    const absl::Status why = (*lost)->model;
    for (const auto& lane : lanes) lane->model = why;
    return;
  }
  Computation& first = *lanes[0];
  if (valid && std::ranges::all_of(lanes, [](const auto& lane) { return CanBePushed(*lane); })) {
    return AddUp(lanes, LaneDevices::Variables::kTables, workload);
  }
  first.run.assign(lanes.begin() + 1, lanes.end());
  first.sum_failed = true;
}

// Encodes the gradient of a lane, or the sum of a run of lanes.
void EncodeLanes(Computation& first, const Workload& workload) {
  const bool encodes = first.encodes && !first.sum_failed && CanBePushed(first);
  if (encodes) EncodeComputation(first, workload);
  if (!first.run.empty() && !CanBePushed(first)) first.sum_failed = true;
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

void RunComputation(Computation& computation, Workload& workload) {
  const Batch* const batch = ReadToCompute(computation, workload);
  if (batch == nullptr) return;
  ComputeOn(*workload.program, *batch, computation, workload);
  if (!computation.model.ok() || !std::isfinite(computation.loss)) return;
  if (computation.encodes) EncodeComputation(computation, workload);
}

void RunLanes(Lanes lanes, bool sums, Workload& workload) {
  std::vector<const Batch*> batches;
  for (const auto& lane : lanes) batches.push_back(ReadToCompute(*lane, workload));
  if (sums && ComputeRun(lanes, batches, workload)) return EncodeLanes(*lanes[0], workload);
  const size_t summed = sums ? SummedOnDevices(lanes, workload) : 0;
  const bool valid = ComputeLanes(lanes, batches, summed, workload);
  if (summed > 0) {
    TakeSum(lanes.first(summed), valid, workload);
    EncodeLanes(*lanes[0], workload);
    lanes = lanes.subspan(summed);
  }
  while (!lanes.empty()) {
    Computation& first = *lanes[0];
    const size_t length = sums && CanBePushed(first) ? RunLength(lanes) : 1;
    if (length > 1) AddUp(lanes.first(length), LaneDevices::Variables::kAll, workload);
    EncodeLanes(first, workload);
    lanes = lanes.subspan(length);
  }
}

void EncodeComputation(Computation& computation, const Workload& workload) {
  Check(computation, workload, [&](size_t v) { return computation.step->Encode(v); });
}

}  // namespace paracord
