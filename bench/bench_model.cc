// Measures a training step without ps: forward and backward of a job's model on the job's data,
// compared with a large matrix product on this machine.
//   bench_model [--job FILE] [--device D] [--precision P] [--threads N] [--batch N] [--rounds N]
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "config/job.h"
#include "data/data_source.h"
#include "keras/build.h"
#include "measure.h"
#include "program/gradient_program.h"
#include "store/initializer.h"
#include "tensor/device.h"

namespace paracord::bench {
namespace {

constexpr int64_t kSide = 1024;  // size of the product's matrices

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench_model: %s\n", std::string(status.message()).c_str());
  std::exit(2);
}

template <class T>
T Take(absl::StatusOr<T> result) {
  Check(result.status());
  return *std::move(result);
}

// The model with initial values, and a batch of the job's data.
struct Step {
  Step(const Job& job, std::unique_ptr<Ops> ops) {
    PosixFiles files;
    const auto source = Take(OpenDataSource(files, job.train));
    std::vector<uint64_t> records(std::min<uint64_t>(job.batch, source->records()));
    std::iota(records.begin(), records.end(), uint64_t{0});
    batch = source->schema();
    Check(source->Read(records, batch));
    batch.source = nullptr;
    program = Take(BuildKerasProgram(job, batch, std::move(ops)));
    for (const VariableSpec& variable : program->variables()) {
      uint64_t elements = 1;
      for (const uint64_t dimension : variable.shape()) elements *= dimension;
      std::vector<float>& value = values.emplace_back(elements);
      Check(Initialize(variable, 1, 0, value));
      gradients.emplace_back(variable.trainable() ? elements : 0);
    }
    for (const auto& value : values) value_spans.emplace_back(value);
    for (auto& gradient : gradients) gradient_spans.emplace_back(gradient);
  }

  void Run() { Take(program->ComputeGradients(batch, key++, value_spans, gradient_spans)); }

  Batch batch;
  std::unique_ptr<GradientProgram> program;
  std::vector<std::vector<float>> values, gradients;
  std::vector<std::span<const float>> value_spans;
  std::vector<std::span<float>> gradient_spans;
  uint64_t key = 0;
};

int Main(int argc, char** argv) {
  std::string path = "examples/fashion-mnist/mlp.json";
  std::string device = "cpu";
  std::string precision;
  int64_t threads = 1;
  int64_t batch = 0;
  int64_t rounds = 50;
  Flags flags("bench_model", "Computes training steps of a job's model.");
  flags.String("job", "FILE", "the job", &path);
  flags.String("device", "DEVICE", "auto, cpu or cuda:N", &device);
  flags.String("precision", "P", "float32, tf32, bf16 or fp16; default: the job's", &precision);
  flags.Integer("threads", "N", "that compute", 1, 1024, &threads);
  flags.Integer("batch", "N", "examples; default: the job's", 1, 1 << 24, &batch);
  flags.Integer("rounds", "N", "repetitions", 1, 100000, &rounds);
  if (const std::optional<int> code = ParseBench(flags, argc, argv)) return *code;
  PrintMachine();
  PosixFiles files;
  Job job = Take(ReadJobFile(files, AbsolutePath(path)));
  if (batch != 0) job.batch = static_cast<uint32_t>(batch);
  if (!precision.empty()) job.precision = precision;
  if (std::find(std::begin(kPrecisions), std::end(kPrecisions), job.precision) ==
      std::end(kPrecisions)) {
    Check(absl::InvalidArgumentError(absl::StrCat("--precision: no \"", precision, "\"")));
  }
  device = Take(ChooseDevice(device, DeviceFor::kOneModel, nullptr));
  Step step(job, Take(MakeOps(device, static_cast<int>(threads))));

  const std::unique_ptr<Ops> ops = Take(MakeOps(device, static_cast<int>(threads)));
  const auto product = Take(ops->MakeMatmul({.m = kSide, .k = kSide, .n = kSide}));
  std::vector<DeviceArray> operands;
  for (int i = 0; i < 3; ++i) {
    operands.push_back(Take(ops->Allocate(kSide * kSide)));
    ops->Fill(kSide * kSide, 0.5f, operands.back().get());
  }
  const std::vector<Way> ways = {{"forward and backward", [&] { step.Run(); }},
                                 {"a matrix product", [&] {
                                    product->Run(operands[0].get(), operands[1].get(), nullptr,
                                                 operands[2].get());
                                    Check(ops->Finish());
                                  }}};
  const std::vector<Timing> timings = TakeTurns(ways, static_cast<int>(rounds));

  const double examples = static_cast<double>(step.batch.examples);
  const auto rate = [&](double seconds) { return examples / seconds; };
  std::printf("\n%s, batch %u, %s, %s, %ld threads (median of %ld, quartiles)\n", job.name.c_str(),
              step.batch.examples, job.precision.c_str(), device.c_str(), threads, rounds);
  std::printf("  forward and backward %8.3f ms (%.3f - %.3f)  %9.0f samples/s\n",
              timings[0].median * 1e3, timings[0].low * 1e3, timings[0].high * 1e3,
              rate(timings[0].median));
  const double flops =
      2 * static_cast<double>(step.program->MultiplyAdds()) * examples / timings[0].median / 1e9;
  const double peak = 2 * static_cast<double>(kSide * kSide * kSide) / timings[1].median / 1e9;
  std::printf("  %.1f GFLOP/s; a product of %ld x %ld: %.1f GFLOP/s\n", flops, kSide, kSide, peak);
  const std::string name = absl::StrCat("step_", job.name, "_", step.batch.examples);
  PrintResult({name, rate(timings[0].median), "samples/s", true});
  PrintResult({absl::StrCat("arithmetic_", job.name, "_", step.batch.examples), flops, "GFLOP/s",
               true, "gemm", flops / peak});
  return 0;
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
