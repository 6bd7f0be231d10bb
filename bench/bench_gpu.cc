// Measures training steps on a GPU, alone and with a ps on the same host; what the device did
// meanwhile, from its trace; and elementwise operations in GB/s. Exits without a GPU, unless
// --device=cpu asks for the CPU.
//   bench_gpu [--device D] [--models DIR] [--case NAME] [--batch N] [--rounds N]
//             [--ps-seconds N] [--ps=false]
// bench/versus/gpu measures PyTorch's steps for comparison.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "common/json_text.h"
#include "common/shared_memory.h"
#include "common/trace.h"
#include "config/job.h"
#include "keras/build.h"
#include "keras/keras_program.h"
#include "keras/layers/layer.h"
#include "measure.h"
#include "nlohmann/json.hpp"
#include "processes.h"
#include "program/gradient_program.h"
#include "store/initializer.h"
#include "temp_dir.h"
#include "tensor/device.h"

namespace paracord::bench {
namespace {

using nlohmann::json;

constexpr int64_t kThreads = 2;          // threads, if the CPU computes
constexpr int64_t kElements = 64 << 20;  // elements of each array for elementwise operations
constexpr double kAlongsidePs = 0.8;     // goals
constexpr double kOfMemory = 0.7;
constexpr int64_t kFewSteps = 10;        // steps of the short run with a ps
constexpr int64_t kStepsMax = 50000;     // longest length of the long run, in steps
constexpr uint64_t kDataMax = 64 << 20;  // bytes of training data
constexpr uint64_t kBatchesMax = 32;

template <class T>
T Take(absl::StatusOr<T> result) {
  if (!result.ok()) Fail(std::string(result.status().message()));
  return *std::move(result);
}

struct Case {
  std::string name;
  json model;
  std::vector<uint64_t> shape;  // shape of an example
  uint32_t batch = 0;
  std::string precision;
  std::string Title() const { return absl::StrCat(name, "_", batch, "_", precision); }
};

json ModelFrom(const std::string& path, const std::vector<uint64_t>& shape) {
  PosixFiles files;
  json model = JsonOf(Take(files.ReadWhole(path)));
  for (json& layer : model["config"]["layers"]) {
    layer.erase("build_config");  // has the image shapes of the example
    if (layer["class_name"] != "InputLayer") continue;
    layer["config"]["batch_shape"] = json::array({nullptr});
    for (const uint64_t dim : shape) layer["config"]["batch_shape"].push_back(dim);
  }
  return model;
}

json Mlp() {
  const auto dense = [](int units, const char* activation) {
    return json{{"class_name", "Dense"},
                {"config", {{"units", units}, {"activation", activation}}}};
  };
  return {{"class_name", "Sequential"},
          {"config",
           {{"name", "mlp"},
            {"layers", {dense(4096, "relu"), dense(4096, "relu"), dense(10, "softmax")}}}}};
}

std::vector<Case> Cases(const std::string& models, const std::string& only, uint32_t batch) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const json& model, std::vector<uint64_t> shape,
                       std::vector<uint32_t> batches) {
    if (!only.empty() && only != name) return;
    if (batch != 0) batches = {batch};
    for (const uint32_t each : batches) {
      for (const char* precision : {"float32", "tf32", "bf16"}) {
        cases.push_back({name, model, shape, each, precision});
      }
    }
  };
  if (only.empty() || only == "cnn") {
    add("cnn", ModelFrom(models + "/cnn.json", {28, 28, 1}), {28, 28, 1}, {64, 1024});
  }
  if (only.empty() || only == "resnet18") {
    add("resnet18", ModelFrom(models + "/resnet18.json", {32, 32, 3}), {32, 32, 3}, {128, 512});
  }
  add("mlp", Mlp(), {784}, {64, 1024});
  return cases;
}

Job JobOf(const Case& c) {
  Job job;
  job.name = c.name;
  job.model = c.model;
  job.loss.name = "sparse_categorical_crossentropy";
  job.batch = c.batch;
  job.precision = c.precision;
  return job;
}

Batch BatchOf(const Case& c) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> draw(0, 1);
  Batch batch;
  batch.examples = c.batch;
  batch.inputs.push_back({"", c.shape, {}});
  batch.targets.push_back({"", {}, {}});
  size_t each = c.batch;
  for (const uint64_t dim : c.shape) each *= dim;
  batch.inputs[0].values.resize(each);
  for (float& x : batch.inputs[0].values) x = draw(random);
  for (uint32_t e = 0; e < c.batch; ++e) {
    batch.targets[0].values.push_back(static_cast<float>(random() % 10));
  }
  return batch;
}

// A model with initial values and a batch. As on a worker, values and gradients are in memory that
// a device copies without staging.
struct Step {
  using Floats = std::vector<float, SharedAllocator<float>>;

  Step(const Case& c, const std::string& device) : batch(BatchOf(c)) {
    program = Take(BuildKerasProgram(JobOf(c), batch, Take(MakeOps(device, kThreads))));
    for (const VariableSpec& variable : program->variables()) {
      const auto n = static_cast<size_t>(VariableElements(variable));
      Floats& value = values.emplace_back(n);
      if (!Initialize(variable, 1, 0, value).ok()) Fail("a variable has no initializer");
      gradients.emplace_back(variable.trainable() ? n : 0);
    }
    for (const auto& value : values) value_spans.emplace_back(value);
    for (auto& gradient : gradients) gradient_spans.emplace_back(gradient);
  }
  void Run() { Take(program->ComputeGradients(batch, key++, value_spans, gradient_spans)); }

  const Batch batch;
  std::unique_ptr<GradientProgram> program;
  std::vector<Floats> values, gradients;
  std::vector<std::span<const float>> value_spans;
  std::vector<std::span<float>> gradient_spans;
  uint64_t key = 0;
};

// ---- The device's activity, from its trace.

using Spans = std::vector<std::pair<double, double>>;

double Length(const Spans& spans) {
  double sum = 0;
  for (const auto& [begin, end] : spans) sum += end - begin;
  return sum;
}

// Returns the time during which both lanes are busy. Spans of a lane are ordered and disjoint.
double Overlap(const Spans& a, const Spans& b) {
  double sum = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max(0.0, std::min(a[i].second, b[j].second) - std::max(a[i].first, b[j].first));
    a[i].second < b[j].second ? ++i : ++j;
  }
  return sum;
}

struct Traced {
  double utilisation = 0;  // share of the time spent computing
  double hidden = 0;       // share of the copies' time during which the device also computed
  double to_device_ms = 0, to_host_ms = 0, wall_ms = 0;  // per step
};

Traced TraceSteps(const Case& c, const std::string& device, int rounds) {
  const TempDir dir;
  PosixFiles files;
  Step step(c, device);
  step.Run();
  const std::string path = dir.path() + "/trace";
  if (!StartTrace(files, path, "bench_gpu").ok()) Fail("no trace");
  step.Run();  // tracing starts with this step
  const double begin = Seconds() * 1e6;
  for (int round = 0; round < rounds; ++round) step.Run();
  const double wall = Seconds() * 1e6 - begin;
  FlushTrace();
  Spans lanes[3];
  const std::string text = Take(files.ReadWhole(path));
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && line.back() == ',') line.pop_back();
    const json event = JsonOf(line);
    if (!event.is_object() || event.value("ph", "") != "X") continue;
    const int64_t lane = event["tid"].get<int64_t>() - kDeviceTracks;
    if (lane < 0 || lane > 2 || event["ts"].get<double>() < begin) continue;
    const double from = event["ts"].get<double>();
    lanes[lane].emplace_back(from, from + event["dur"].get<double>());
  }
  for (Spans& lane : lanes) std::sort(lane.begin(), lane.end());
  const double copies = Length(lanes[1]) + Length(lanes[2]);
  const double steps = rounds * 1e3;
  return {Length(lanes[0]) / wall,
          copies == 0 ? 0 : (Overlap(lanes[0], lanes[1]) + Overlap(lanes[0], lanes[2])) / copies,
          Length(lanes[1]) / steps, Length(lanes[2]) / steps, wall / steps};
}

// ---- With a parameter server.

std::string Npy(const std::string& shape, const std::vector<float>& values) {
  std::string header =
      absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': ", shape, "}");
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\0", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return file;
}

// Returns the seconds of `paracord train` with a ps and a worker.
double Train(const Case& c, const std::string& device, const TempDir& dir, int64_t steps) {
  const json job = {
      {"name", c.name},
      {"model", c.model},
      {"data", {{"train", {{"format", "npy"}, {"features", "x.npy"}, {"labels", "y.npy"}}}}},
      {"batch", c.batch},
      {"steps", steps},
      {"loss", "sparse_categorical_crossentropy"},
      {"optimizer", {{"name", "sgd"}, {"learning_rate", 0.001}}},
      {"precision", c.precision},
      {"checkpoint", {{"every_seconds", 0}, {"keep", 1}}}};
  const std::string path = dir.Write("job.json", TextOf(job));
  const double begin = Seconds();
  Child train({Program("paracord"), "train", path, "--dir", dir.path() + "/run", "--fresh", "--ps",
               "1", "--workers", "1", "--device", device},
              {}, dir.path() + "/log");
  if (const int code = train.Wait(); code != 0) {
    PosixFiles files;
    Fail(absl::StrCat("paracord train ended with ", code, ":\n",
                      files.ReadWhole(dir.path() + "/log").value_or("")));
  }
  return Seconds() - begin;
}

// Writes examples for several batches, so that an epoch has more than one batch.
void WriteData(const Case& c, const TempDir& dir) {
  const Batch batch = BatchOf(c);
  Batch all = batch;
  const uint64_t bytes = batch.inputs[0].values.size() * sizeof(float);
  const uint64_t batches = std::clamp<uint64_t>(kDataMax / bytes, 1, kBatchesMax);
  for (uint64_t i = 1; i < batches; ++i) {
    for (const auto& [from, to] : {std::pair(&batch.inputs[0], &all.inputs[0]),
                                   std::pair(&batch.targets[0], &all.targets[0])}) {
      to->values.insert(to->values.end(), from->values.begin(), from->values.end());
    }
  }
  std::string shape = absl::StrCat("(", batches * c.batch);
  for (const uint64_t dim : c.shape) absl::StrAppend(&shape, ", ", dim);
  dir.Write("x.npy", Npy(shape + ")", all.inputs[0].values));
  dir.Write("y.npy", Npy(absl::StrCat("(", batches * c.batch, ",)"), all.targets[0].values));
}

// Returns the time of a step: the difference of two runs, so that start and end cancel out. The
// longer run takes about `ps_seconds` at the pace of steps alone, or more if the start is slow.
// Returns nullopt if the difference is below the shorter run, whose start may vary by a tenth.
std::optional<double> SecondsWithPs(const Case& c, const std::string& device, double alone,
                                    int64_t rounds, double ps_seconds) {
  const TempDir dir;
  WriteData(c, dir);
  (void)Train(c, device, dir, 1);  // warms the page cache
  const double less = Train(c, device, dir, kFewSteps);
  const double wanted = std::max(ps_seconds, ps_seconds > 0 ? 1.5 * less : 0);
  const int64_t more_steps = std::clamp<int64_t>(static_cast<int64_t>(wanted / alone), rounds,
                                                 std::max(rounds, kStepsMax));
  const double more = Train(c, device, dir, kFewSteps + more_steps);
  std::printf("  %-24s %ld steps in %.2f s, %ld in %.2f s\n", c.Title().c_str(), kFewSteps, less,
              kFewSteps + more_steps, more);
  if (more - less < less) return std::nullopt;
  return (more - less) / static_cast<double>(more_steps);
}

// ---- Elementwise operations.

void ElementWise(const std::string& device, int64_t elements, int rounds, double memory) {
  const std::unique_ptr<Ops> ops = Take(MakeOps(device, kThreads));
  ops->Enter();
  const DeviceArray x = Take(ops->Allocate(elements)), y = Take(ops->Allocate(elements));
  ops->Fill(elements, 0.5f, x.get());
  ops->Fill(elements, 0.5f, y.get());
  const Activation relu{ActivationKind::kRelu};
  struct Operation {
    const char* name;
    double passes;  // passes over memory: one for each array
    std::function<void()> run;
  };
  const std::vector<Operation> operations = {
      {"fill", 1, [&] { ops->Fill(elements, 0.25f, y.get()); }},
      {"affine", 2, [&] { ops->Affine(elements, 2, 1, x.get(), y.get()); }},
      {"relu", 2, [&] { ops->Activate(relu, 1, elements, x.get(), y.get()); }},
      {"add", 3, [&] { ops->Add(elements, x.get(), y.get()); }},
      {"dropout", 2, [&] { ops->Dropout(1, 0.5f, 0, elements, x.get(), y.get()); }}};
  std::vector<Way> ways;
  constexpr int kTogether = 4;  // operations per wait, so that the wait hardly counts
  for (const Operation& operation : operations) {
    ways.push_back({operation.name, [&ops, &operation] {
                      for (int i = 0; i < kTogether; ++i) operation.run();
                      if (!ops->Finish().ok()) Fail(operation.name);
                    }});
  }
  const std::vector<Timing> timings = TakeTurns(ways, rounds);
  std::printf("\nelement-wise, %ld floats (median of %d)\n", elements, rounds);
  for (size_t i = 0; i < operations.size(); ++i) {
    const double rate = operations[i].passes * static_cast<double>(elements) * sizeof(float) *
                        kTogether / timings[i].median / 1e9;
    std::printf("  %-8s %9.1f GB/s\n", operations[i].name, rate);
    Result result{absl::StrCat("gpu_", operations[i].name), rate, "GB/s"};
    if (memory > 0) {
      result.ratio_to = "memory";
      result.ratio = rate / memory;
    }
    PrintResult(result);
    if (memory > 0) {
      PrintGoal(absl::StrCat(operations[i].name, " beside the memory"), rate / memory,
                Bound::kAtLeast, kOfMemory, "x");
    }
  }
}

// Returns the median seconds of a step for each case.
std::vector<double> StepsAlone(const std::vector<Case>& cases, const std::string& device,
                               int64_t rounds) {
  std::vector<double> alone;
  std::printf("\nsteps alone, %s (median of %ld, quartiles)\n", device.c_str(), rounds);
  for (const Case& c : cases) {
    Step step(c, device);
    for (int i = 0; i < 3; ++i) step.Run();  // the second step records a CUDA graph
    const Timing timing =
        TakeTurns({{c.Title(), [&] { step.Run(); }}}, static_cast<int>(rounds))[0];
    alone.push_back(timing.median);
    std::printf("  %-24s %9.3f ms (%.3f - %.3f)  %10.0f samples/s\n", c.Title().c_str(),
                timing.median * 1e3, timing.low * 1e3, timing.high * 1e3, c.batch / timing.median);
    PrintResult({"gpu_step_" + c.Title(), c.batch / timing.median, "samples/s"});
  }
  return alone;
}

// Compares steps with a ps in another process with the steps in `alone`, in seconds.
void StepsWithPs(const std::vector<Case>& cases, const std::string& device,
                 const std::vector<double>& alone, int64_t rounds, double ps_seconds) {
  std::printf("\nsteps with a ps on this host\n");
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const std::optional<double> seconds = SecondsWithPs(c, device, alone[i], rounds, ps_seconds);
    if (!seconds.has_value()) {
      std::printf("  %s with a ps beside alone: too short to say (--ps-seconds)\n",
                  c.Title().c_str());
      continue;
    }
    std::printf("  %-24s %9.3f ms  %10.0f samples/s\n", c.Title().c_str(), *seconds * 1e3,
                c.batch / *seconds);
    PrintResult({"gpu_ps_step_" + c.Title(), c.batch / *seconds, "samples/s", true, "alone",
                 alone[i] / *seconds});
    PrintGoal(c.Title() + " with a ps beside alone", alone[i] / *seconds, Bound::kAtLeast,
              kAlongsidePs, "x");
  }
}

// Traces steps, and prints computing and copying times.
void TraceAll(const std::vector<Case>& cases, const std::string& device, int64_t rounds) {
  std::printf(
      "\nwhat the device was at, traced and so without graphs: computing, copies hidden, ms a "
      "step\n");
  for (const Case& c : cases) {
    const Traced traced = TraceSteps(c, device, static_cast<int>(std::min<int64_t>(rounds, 20)));
    std::printf("  %-24s %5.1f %%  %5.1f %%  of %.3f to it %.3f from it %.3f\n", c.Title().c_str(),
                traced.utilisation * 100, traced.hidden * 100, traced.wall_ms, traced.to_device_ms,
                traced.to_host_ms);
    PrintResult({"gpu_utilisation_" + c.Title(), traced.utilisation, "of the time"});
    PrintResult({"gpu_hidden_copies_" + c.Title(), traced.hidden, "of their time"});
  }
}

int Main(int argc, char** argv) {
  std::string device = "auto", models = "examples/fashion-mnist/models", only;
  int64_t batch = 0, rounds = 50, elements = kElements, memory = 0, ps_seconds = 3;
  bool ps = true;
  Flags flags("bench_gpu", "Computes training steps on a GPU, alone and with a ps.");
  flags.String("device", "DEVICE", "auto, cpu or cuda:N; auto: a GPU, or nothing is measured",
               &device);
  flags.String("models", "DIR", "where cnn.json and resnet18.json are", &models);
  flags.String("case", "NAME", "cnn, resnet18 or mlp; default: all", &only);
  flags.Integer("batch", "N", "examples; default: those of each case", 1, 1 << 24, &batch);
  flags.Integer("rounds", "N", "repetitions", 1, 100000, &rounds);
  flags.Integer("elements", "N", "of element-wise operations", 1, int64_t{1} << 33, &elements);
  flags.Integer("memory-gbs", "N", "GB/s that the device's memory gives, for the goal", 1, 1 << 20,
                &memory);
  flags.Integer("ps-seconds", "N", "of steps that are timed with a ps", 0, 600, &ps_seconds);
  flags.Switch("ps", "also with processes: paracord train with one ps (on; =false: not)", &ps);
  if (const std::optional<int> code = ParseBench(flags, argc, argv)) return *code;
  // Line buffering saves the printed results if the process is killed.
  (void)std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  PrintMachine();
  const absl::StatusOr<std::string> chosen =
      ChooseDevice(device == "auto" ? "cuda:0" : device, DeviceFor::kOneModel, nullptr);
  if (!chosen.ok() && device == "auto") {
    std::fprintf(stderr, "skipped: %s\n", std::string(chosen.status().message()).c_str());
    return 0;
  }
  if (!chosen.ok()) {
    std::fprintf(stderr, "bench_gpu: %s\n", std::string(chosen.status().message()).c_str());
    return static_cast<int>(ExitCode::kConfiguration);
  }
  device = *chosen;
  (void)EnableSharedMemory();
  const std::vector<Case> cases = Cases(models, only, static_cast<uint32_t>(batch));
  if (cases.empty()) Fail(absl::StrCat("--case: there is no \"", only, "\""));
  ElementWise(device, elements, static_cast<int>(rounds), static_cast<double>(memory));

  const std::vector<double> alone = StepsAlone(cases, device, rounds);
  if (ps) StepsWithPs(cases, device, alone, rounds, static_cast<double>(ps_seconds));
  TraceAll(cases, device, rounds);
  return 0;
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
