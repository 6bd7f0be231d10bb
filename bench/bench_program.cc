// Measures the overhead of a step in a child process over the step in this process, with a program
// that computes nothing and with one that counts.
//   bench_program [--steps N] [--rounds N]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "config/flags.h"
#include "measure.h"
#include "processes.h"
#include "program/process_program.h"

namespace paracord::bench {
namespace {

constexpr char kChild[] = R"(import sys, numpy as np, paracord
class Nothing(paracord.Program):
    variables = [paracord.Variable("v", (int(sys.argv[1]),))]
    def gradients(self, values, batch, gradients, done):
        return 0.0
class Count(Nothing):
    def gradients(self, values, batch, gradients, done):
        gradients[0][...] = -1
        return 0.0
paracord.serve(Count() if sys.argv[2] == "count" else Nothing())
)";

// Computes in this process what the child computes.
class InProcess : public GradientProgram {
 public:
  InProcess(std::vector<VariableSpec> variables, bool counts)
      : variables_(std::move(variables)), counts_(counts) {}
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  const std::vector<std::string>& metric_names() const override { return names_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t, ConstTensors,
                                          MutableTensors gradients) override {
    if (counts_) std::ranges::fill(gradients[0], -1.f);
    return 0.0;
  }
  absl::Status Evaluate(const Batch&, ConstTensors, std::vector<MetricState>&) override {
    return absl::UnimplementedError("no evaluation");
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch&, ConstTensors) override {
    return absl::UnimplementedError("no predictions");
  }

 private:
  const std::vector<VariableSpec> variables_;
  const std::vector<std::string> names_ = {"loss"};
  const bool counts_;
};

constexpr char kNothing[] = "a program that computes nothing";

struct Setting {
  std::string python;
  int64_t steps = 0, rounds = 0;
};

// Returns the microseconds of a step in the child minus those in this process.
double Compare(const Setting& setting, const char* name, const std::string& what, uint64_t elements,
               bool counts) {
  Job job;
  job.model = {{"program", "process"},
               {"command",
                {setting.python, "child.py", absl::StrCat(elements), counts ? "count" : "nothing"}},
               {"files", {{"child.py", kChild}}}};
  job.batch = 64;
  Batch batch;
  batch.inputs = {{"", {2}, {}}};
  batch.targets = {{"", {}, {}}};
  ProgramUse use;
  use.allowed = true;
  use.log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  auto child = ProcessProgram::Start(job, batch, std::move(use));
  if (!child.ok()) Fail(std::string(child.status().message()));
  InProcess own((*child)->variables(), counts);
  batch.examples = 64;
  batch.inputs[0].values.resize(128);
  batch.targets[0].values.resize(64);
  const std::vector<float> values(elements);
  std::vector<float> gradients(elements);
  const auto run = [&](GradientProgram& program) {
    return [&] {
      const std::span<const float> in[] = {values};
      const std::span<float> out[] = {gradients};
      for (int64_t i = 0; i < setting.steps; ++i) {
        const auto loss = program.ComputeGradients(batch, static_cast<uint64_t>(i), in, out);
        if (!loss.ok()) Fail(std::string(loss.status().message()));
      }
    };
  };
  const std::vector<Timing> timings =
      TakeTurns({{"in the process", run(own)}, {"in a child", run(**child), "in the process"}},
                static_cast<int>(setting.rounds));
  const double each = 1e6 / static_cast<double>(setting.steps);
  std::printf("\n%s, %llu numbers (median of %lld, quartiles, of a step)\n", what.c_str(),
              static_cast<unsigned long long>(elements), static_cast<long long>(setting.rounds));
  for (size_t i = 0; i < timings.size(); ++i) {
    std::printf("  %-16s %8.2f us (%.2f - %.2f)\n", i == 0 ? "in the process" : "in a child",
                timings[i].median * each, timings[i].low * each, timings[i].high * each);
  }
  const double more = (timings[1].median - timings[0].median) * each;
  PrintResult({name, more, "us", false});
  return more;
}

int Main(int argc, char** argv) {
  Setting setting{.python = "python3", .steps = 5000, .rounds = 9};
  setenv("PYTHONPATH", PARACORD_SOURCE_DIR "/python", 0);
  Flags flags("bench_program", "Measures steps of a program in a child process.");
  flags.String("python", "PYTHON", "an interpreter that has NumPy", &setting.python);
  flags.Integer("steps", "N", "steps of a run", 1, 1 << 24, &setting.steps);
  flags.Integer("rounds", "N", "rounds, whose median counts", 1, 1000, &setting.rounds);
  if (const auto code = ParseBench(flags, argc, argv)) return *code;
  PrintMachine();
  const double nothing = Compare(setting, "empty_child", kNothing, 16, false);
  PrintGoal("a child beside the process, empty program", nothing, Bound::kAtMost, 30, "us");
  Compare(setting, "counting_child", "a program that counts", 3 * 4096, true);
  // The child does nothing but receive copies of values and send copies of gradients.
  setting.steps = std::max<int64_t>(setting.steps / 10, 1);
  Compare(setting, "copies_of_child", kNothing, 784 * 512 + 512 + 512 * 10 + 10, false);
  return 0;
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
