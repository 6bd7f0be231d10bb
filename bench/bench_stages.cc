// Measures a training step of a model in two stages with one thread each (model parallelism),
// against the step on one device with one thread. Both give equal bits.
//   bench_stages [--model FILE] [--perceptron-alone] [--batch N] [--sequences N] [--slices N]
//                [--units N] [--rounds N]
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "keras/build.h"
#include "keras/stage_program.h"
#include "measure.h"
#include "nlohmann/json.hpp"
#include "store/initializer.h"
#include "tensor/cpu/cpu_ops.h"

namespace paracord::bench {
namespace {

using nlohmann::json;

constexpr uint32_t kStages = 2;
constexpr double kGoal = 1.5;

template <class T>
T Take(absl::StatusOr<T> result) {
  if (!result.ok()) Fail(std::string(result.status().message()));
  return *std::move(result);
}

// A model, a batch of random numbers, and a name to print.
struct Subject {
  std::string name;
  Job job;
  Batch batch;
};

void Draw(Column& column, uint32_t examples, uint32_t whole_below) {
  std::mt19937 random(1);
  size_t size = examples;
  for (const uint64_t axis : column.shape) size *= axis;
  column.values.resize(size);
  for (float& x : column.values) {
    x = static_cast<float>(random() % (whole_below > 0 ? whole_below : 1000));
    if (whole_below == 0) x = x / 500 - 1;
  }
}

// Returns a perceptron with two equal halves.
Subject Perceptron(int64_t units, uint32_t batch) {
  json layers = json::array();
  for (int i = 0; i < 4; ++i) {
    layers.push_back(
        {{"class_name", "Dense"},
         {"config",
          {{"name", absl::StrCat("dense", i)}, {"units", units}, {"activation", "relu"}}}});
  }
  Subject subject{.name = absl::StrCat("MLP of 4 x ", units), .job = {}, .batch = {}};
  subject.job.model = {{"class_name", "Sequential"},
                       {"config", {{"name", "halves"}, {"layers", layers}}}};
  subject.job.loss.name = "mean_squared_error";
  subject.job.batch = subject.batch.examples = batch;
  subject.batch.inputs.push_back({"", {static_cast<uint64_t>(units)}, {}});
  subject.batch.targets.push_back({"", {static_cast<uint64_t>(units)}, {}});
  Draw(subject.batch.inputs[0], batch, 0);
  Draw(subject.batch.targets[0], batch, 0);
  return subject;
}

// Returns the character language model of examples/shakespeare.
Subject Transformer(const std::string& path, uint32_t batch) {
  constexpr uint32_t kCharacters = 65;
  PosixFiles files;
  Subject subject{.name = "Transformer", .job = {}, .batch = {}};
  subject.job.model = json::parse(Take(files.ReadWhole(path)));
  subject.job.loss = {"sparse_categorical_crossentropy", {{"from_logits", true}}};
  subject.job.batch = subject.batch.examples = batch;
  subject.batch.inputs.push_back({"tokens", {64}, {}});
  subject.batch.targets.push_back({"", {64}, {}});
  Draw(subject.batch.inputs[0], batch, kCharacters);
  Draw(subject.batch.targets[0], batch, kCharacters);
  return subject;
}

Batch SchemaOf(Batch batch) {
  batch.examples = 0;
  for (auto* columns : {&batch.inputs, &batch.targets}) {
    for (Column& column : *columns) column.values.clear();
  }
  return batch;
}

// A program with its initial values.
struct Trained {
  explicit Trained(std::unique_ptr<GradientProgram> built) : program(std::move(built)) {
    for (const VariableSpec& variable : program->variables()) {
      uint64_t elements = 1;
      for (const uint64_t axis : variable.shape()) elements *= axis;
      std::vector<float>& value = values.emplace_back(elements);
      const absl::Status drawn = Initialize(variable, 1, 0, value);
      if (!drawn.ok()) Fail(std::string(drawn.message()));
      gradients.emplace_back(variable.trainable() ? elements : 0);
    }
    for (const auto& value : values) value_spans.emplace_back(value);
    for (auto& gradient : gradients) gradient_spans.emplace_back(gradient);
  }
  double Step(const Batch& batch) {
    return Take(program->ComputeGradients(batch, 7, value_spans, gradient_spans));
  }

  std::unique_ptr<GradientProgram> program;
  std::vector<std::vector<float>> values, gradients;
  std::vector<std::span<const float>> value_spans;
  std::vector<std::span<float>> gradient_spans;
};

void CheckSameBits(const Trained& a, const Trained& b) {
  for (size_t v = 0; v < a.gradients.size(); ++v) {
    const std::vector<float>&one = a.gradients[v], &other = b.gradients[v];
    if (std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) != 0) {
      Fail("the stages have other gradients than one device");
    }
  }
}

void Measure(const Subject& subject, uint32_t slices, int rounds) {
  const Batch schema = SchemaOf(subject.batch);
  Trained whole(Take(BuildKerasProgram(subject.job, schema, MakeCpuOps(1))));
  Job sliced = subject.job;
  sliced.accumulate = slices;
  Trained one(Take(BuildKerasProgram(sliced, schema, MakeCpuOps(1))));
  sliced.guarantees.stages.count = kStages;
  std::vector<StageDevice> devices;
  while (devices.size() < kStages) devices.push_back({"cpu", MakeCpuOps(1)});
  Trained staged(Take(BuildStages(sliced, schema, std::move(devices))));
  std::printf("\n%s", staged.program->Summary().c_str());
  const std::vector<Timing> timings = TakeTurns({{"whole", [&] { whole.Step(subject.batch); }},
                                                 {"slices", [&] { one.Step(subject.batch); }},
                                                 {"stages", [&] { staged.Step(subject.batch); }}},
                                                rounds);
  CheckSameBits(one, staged);
  const auto line = [&](const char* what, const Timing& timing) {
    std::printf("  %-34s %8.2f ms (%.2f - %.2f)\n", what, timing.median * 1e3, timing.low * 1e3,
                timing.high * 1e3);
  };
  std::printf("%s, batch %u, %u slices (median of %d, quartiles)\n", subject.name.c_str(),
              subject.job.batch, slices, rounds);
  line("one device, the batch at once", timings[0]);
  line("one device, in slices", timings[1]);
  line("two stages", timings[2]);
  const double ratio = timings[0].median / timings[2].median;
  PrintGoal(absl::StrCat(subject.name, ": two stages beside one device, the batch at once"), ratio,
            Bound::kAtLeast, kGoal, "x");
  std::printf("  beside one device in slices: %.2fx\n", timings[1].median / timings[2].median);
  PrintResult({.name = absl::StrCat("stages_", subject.name),
               .value = static_cast<double>(subject.job.batch) / timings[2].median,
               .unit = "samples/s",
               .ratio_to = "one_device",
               .ratio = ratio});
}

int Main(int argc, char** argv) {
  std::string model = "examples/shakespeare/model.json";
  bool perceptron_alone = false;
  int64_t batch = 1024, sequences = 48, slices = 8, units = 1024, rounds = 15;
  Flags flags("bench_stages", "Trains models in two stages beside one device.");
  flags.String("model", "FILE", "of the Transformer", &model);
  flags.Switch("perceptron-alone", "leave the Transformer out", &perceptron_alone);
  flags.Integer("batch", "N", "examples of the MLP", 8, 1 << 16, &batch);
  flags.Integer("sequences", "N", "examples of the Transformer", 8, 1 << 16, &sequences);
  flags.Integer("slices", "N", "of a batch", 1, 64, &slices);
  flags.Integer("units", "N", "of each layer of the MLP", 1, 1 << 14, &units);
  flags.Integer("rounds", "N", "repetitions", 1, 100000, &rounds);
  if (const std::optional<int> code = ParseBench(flags, argc, argv)) return *code;
  PrintMachine();
  const auto n = static_cast<uint32_t>(slices);
  Measure(Perceptron(units, static_cast<uint32_t>(batch)), n, static_cast<int>(rounds));
  if (perceptron_alone) return 0;
  Measure(Transformer(model, static_cast<uint32_t>(sequences)), n, static_cast<int>(rounds));
  return 0;
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
