// `paracord validate`: prints the plan of a job, or all of its problems.
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/batch_needs.h"
#include "cli/commands.h"
#include "cli/cost_lines.h"
#include "cli/data_look.h"
#include "cli/own_programs.h"
#include "cli/plan.h"
#include "cli/scale_doubts.h"
#include "cli/train_checks.h"
#include "cli/try_batch.h"
#include "cli/user_job.h"
#include "cli/warnings.h"
#include "common/memory_budget.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "config/cluster.h"
#include "config/flags.h"
#include "config/job.h"
#include "config/job_settings.h"
#include "config/json_fields.h"
#include "config/nodes.h"
#include "config/partitions.h"
#include "config/program_spec.h"
#include "config/strategy.h"
#include "daemon/daemon_process.h"
#include "data/data_source.h"
#include "keras/build.h"
#include "keras/device_program.h"
#include "keras/job_program.h"
#include "keras/tables.h"
#include "objects/all_files.h"
#include "program/gradient_program.h"
#include "program/pjrt_plugin.h"
#include "program/pjrt_program.h"
#include "program/workload.h"
#include "storage/checkpoint.h"
#include "store/initial_weights.h"
#include "store/initializer.h"
#include "store/optimizer.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/device.h"

namespace paracord {
namespace {

// Collects problems, to print them at the end, one line for each line of a message.
class Report {
 public:
  template <class T>
  bool Take(const std::string& where, const absl::StatusOr<T>& result) {
    return Take(where, result.status());
  }
  bool Take(const std::string& where, const absl::Status& status) {
    if (status.ok()) return true;
    for (const auto line : absl::StrSplit(status.message(), '\n')) {
      absl::StrAppend(&text_, where, ": ", line, "\n");
      ++problems_;
    }
    wrong_.insert(where);
    return false;
  }
  // Whether a problem of `where` was reported: its consequences are not worth another line.
  bool IsWrong(const std::string& where) const { return wrong_.contains(where); }
  void Warn(const std::string& where, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      absl::StrAppend(&text_, where, ": warning: ", line, "\n");
    }
  }
  // Prints the problems and returns the exit code.
  int Say(std::ostream& err) const {
    err << ForTerminal(text_);
    if (problems_ == 0) return static_cast<int>(ExitCode::kDone);
    err << problems_ << (problems_ == 1 ? " problem\n" : " problems\n");
    return static_cast<int>(ExitCode::kConfiguration);
  }

 private:
  std::string text_;
  std::set<std::string> wrong_;  // where
  int problems_ = 0;
};

// Reads the cluster from the file, or else from the environment.
std::optional<Cluster> ReadCluster(Files& files, const std::optional<std::string>& path,
                                   Report& report) {
  std::string text;
  std::string where = "TF_CONFIG";
  if (path) {
    where = *path;
    absl::StatusOr<std::string> read = files.ReadWhole(AbsolutePath(*path));
    if (!report.Take("--cluster", read)) return std::nullopt;
    text = *std::move(read);
  } else if (const char* set = std::getenv("TF_CONFIG")) {
    text = set;
  }
  absl::StatusOr<std::optional<Cluster>> cluster = ParseTfConfig(text);
  if (!report.Take(where, cluster)) return std::nullopt;
  if (path && !*cluster) report.Take(where, absl::InvalidArgumentError("holds no cluster"));
  return *std::move(cluster);
}

void PrintData(const char* key, const DataSpec& spec, const DataSource& source, std::ostream& out) {
  const std::string more = source.Describe();
  out << "data." << key << ": " << source.records() << " records (" << spec.format
      << (more.empty() ? "" : ", ") << more << ")\n";
}

// Shows the first records to the program (GradientProgram::LookAt), and warns about layers whose
// vocabulary has none of their values.
void CheckFirstBatches(const DataSource& source, GradientProgram& program, const std::string& where,
                       Report& report) {
  if (report.IsWrong(where)) return;
  LookupCounts counts;
  if (!report.Take(where, LookAtFirst(source, program, counts))) return;
  for (const auto& [layer, count] : counts) {
    if (count.values == 0 || count.unknown < count.values) continue;
    report.Warn(where, {absl::StrCat(layer, ": its vocabulary knows none of the ", count.values,
                                     " values of the first records, as \"", count.example,
                                     "\"; all are one unknown value to the model")});
  }
}

// Returns null, and reports why, if the data cannot be opened.
std::unique_ptr<DataSource> OpenData(Files& files, const char* key, const DataSpec& spec,
                                     const std::string& where, Report& report, std::ostream& out) {
  if (spec.format.empty()) return nullptr;  // said when the job was read
  absl::StatusOr<std::unique_ptr<DataSource>> source = OpenDataSource(files, spec);
  if (!report.Take(absl::StrCat(where, ": data.", key), source)) return nullptr;
  PrintData(key, spec, **source, out);
  report.Take(absl::StrCat(where, ": data.", key), CheckFirstValues(**source));
  report.Warn(absl::StrCat(where, ": data.", key), (*source)->Warnings());
  return *std::move(source);
}

// Opens the records to predict, which need no labels, and compares their inputs with the training
// data's.
void CheckPredictData(Files& files, const Job& job, const DataSource* train,
                      const std::string& where, Report& report, std::ostream& out) {
  if (!job.predict.has_value()) return;
  DataSpec spec = *job.predict;
  spec.inputs_alone = true;
  const auto source = OpenData(files, "predict", spec, where, report, out);
  if (source == nullptr || train == nullptr) return;
  Batch trained, given;
  trained.inputs = train->schema().inputs;
  given.inputs = source->schema().inputs;
  const absl::Status same = CheckSameColumns(trained, given);
  report.Take(where,
              absl::Status(same.code(),
                           absl::StrReplaceAll(same.message(), {{"data.test", "data.predict"}})));
}

// Returns the model's first doubt about the first records; "" if it has none.
std::string FirstDoubt(const GradientProgram& program, const DataSource& source) {
  std::string doubt;
  const auto look = [&](const Batch& batch) {
    doubt = program.Doubt(batch);
    return doubt.empty() ? absl::OkStatus() : absl::CancelledError();
  };
  ReadFirstRecords(source, look).IgnoreError();  // reading errors were reported before
  return doubt;
}

// `test` may be null.
void WarnOfValues(const Job& job, const GradientProgram& program, const DataSource& train,
                  const DataSource* test, const std::string& where, Report& report) {
  for (const auto& [key, source] : {std::pair("train", &train), {"test", test}}) {
    const std::string doubt = source == nullptr ? "" : FirstDoubt(program, *source);
    if (!doubt.empty()) report.Warn(where, {absl::StrCat("data.", key, ": ", doubt)});
  }
  report.Warn(where, ScaleDoubts(job, train));
}

bool Compiles(const std::string& device) { return !device.empty() || !PjrtPluginPaths().empty(); }

// `device` is the plug-in that compiles a StableHLO program; "" leaves the choice to the
// environment.
absl::StatusOr<std::unique_ptr<GradientProgram>> Build(const Job& job, const DataSource& train,
                                                       const std::string& device, bool allowed) {
  if (!IsProgram(job.model) && device.empty()) {
    return BuildKerasProgram(job, train.schema(), MakeCpuOps(/*threads=*/1));
  }
  ProgramUse programs = OwnPrograms("validate");
  programs.allowed = allowed;
  programs.compiles = Compiles(device);
  DeviceUse use = {device.empty() ? "cpu" : device};
  use.automatic = device.empty() && IsStableHlo(job.model);
  if (IsStableHlo(job.model)) {
    RETURN_IF_ERROR(PjrtProgram::Check(job, train.schema(), programs.memory_max).status());
  }
  ASSIGN_OR_RETURN(DeviceProgram built, BuildJobProgram(job, train.schema(), use, programs));
  RETURN_IF_ERROR(CheckBatchSizes(*built.program, job, train.records()));
  return std::move(built.program);
}

struct ValidateFlags {
  Holders holders;
  std::string device;  // a plug-in; "": the processor
  bool batch = false;
  bool allow_programs = false;
  std::optional<uint64_t> memory_limit;  // for each holder
};

// Prints what a batch with these rows costs each ps.
absl::Status SayNeeds(const Job& job, const GradientProgram& program, const Optimizer& optimizer,
                      const ValidateFlags& flags, const TableRows* rows, std::ostream& out) {
  ASSIGN_OR_RETURN(const BatchNeeds needs,
                   MeasureBatch(job, program.variables(), optimizer, flags.holders, rows));
  for (const std::string& line : NeedLines(needs, flags.memory_limit)) out << line << "\n";
  return CheckNeeds(needs, flags.memory_limit.value_or(MemoryBudget::kUnlimited));
}

// Reads the job's optimizer and the tables' own ones.
absl::StatusOr<Optimizer> ReadOptimizers(const Job& job, const std::string& where, Report& report) {
  absl::StatusOr<Optimizer> optimizer = absl::UnknownError("the job names none");
  if (!job.optimizer.name.empty()) {
    optimizer = ParseOptimizer(job.optimizer);
    report.Take(where, optimizer);
  }
  for (const auto& [layer, table] : job.tables.by_layer) {
    if (!table.optimizer.has_value()) continue;
    const std::string path = absl::StrCat("tables.", layer, ".optimizer");
    report.Take(where, ParseTableOptimizer(*table.optimizer, path));
  }
  return optimizer;
}

// Opens the initial weights, if the job has any, and checks the values with which training begins.
absl::StatusOr<std::unique_ptr<InitialWeights>> OpenFirstValues(
    Files& files, const Job& job, std::span<const VariableSpec> variables, const std::string& where,
    Report& report, std::ostream& out) {
  auto weights = OpenInitialWeights(files, job, variables);
  if (!report.Take(where, weights)) return weights;
  if (*weights != nullptr) {
    report.Take(where, (*weights)->CheckFinite());
    const std::string drawn = (*weights)->Drawn(variables);
    if (!drawn.empty()) out << drawn << "\n";
  }
  for (size_t v = 0; v < variables.size(); ++v) {
    if (*weights != nullptr && (*weights)->Has(v)) continue;
    report.Take(where, CheckInitializer(variables[v]));
  }
  return weights;
}

// Opens the data and builds the model, as a worker would, and prints the plan. Parts of the job
// that an earlier problem left out are not looked at.
void CheckJob(Files& files, const Job& job, const ValidateFlags& flags, const std::string& where,
              Report& report, std::ostream& out) {
  const absl::StatusOr<Optimizer> optimizer = ReadOptimizers(job, where, report);
  const auto train = OpenData(files, "train", job.train, where, report, out);
  auto test = job.test ? OpenData(files, "test", *job.test, where, report, out) : nullptr;
  CheckPredictData(files, job, train.get(), where, report, out);
  if (train != nullptr && test != nullptr &&
      !report.Take(where, CheckSameColumns(train->schema(), test->schema()))) {
    test = nullptr;
  }
  if (!job.model.is_object()) return;
  if (train == nullptr) {  // the model's shapes come from the data
    if (!IsProgram(job.model)) {
      report.Take(where, CheckKerasModel(job, MakeCpuOps(/*threads=*/1)));
    }
    return;
  }
  // A program of StableHLO is checked without running anything.
  if (IsProgram(job.model) && !IsStableHlo(job.model) && !flags.allow_programs) {
    out << "note: the model is a program, which is code of whoever wrote the job: it is only run, "
           "and its variables and outputs only checked, with --allow-programs\n";
    return;
  }
  const auto program = Build(job, *train, flags.device, flags.allow_programs);
  if (!report.Take(where, program)) return;
  CheckFirstBatches(*train, **program, where + ": data.train", report);
  if (test != nullptr) CheckFirstBatches(*test, **program, where + ": data.test", report);
  out << (*program)->Summary() << (*program)->Memory() << "\n";
  WarnOfValues(job, **program, *train, test.get(), where, report);
  if (!report.Take(where, CheckVariables((*program)->variables()))) return;
  const auto weights = OpenFirstValues(files, job, (*program)->variables(), where, report, out);
  const uint64_t slots = optimizer.ok() ? optimizer->slots.size() : 0;
  Problems warnings;
  report.Take(where, PrintPlan(job, (*program)->variables(), flags.holders, slots, out, warnings));
  out << StepText(job, (*program)->variables(), (*program)->MultiplyAdds(), flags.holders.count)
      << "\n";
  if (optimizer.ok()) PrintCheckpoints(job, (*program)->variables(), *optimizer, out);
  for (const std::string& note : TableNotes(job)) out << "note: " << note << "\n";
  report.Warn(where, warnings.lines());
  if (!flags.batch || !weights.ok()) return;
  if (IsStableHlo(job.model) && !Compiles(flags.device)) {
    report.Take(where, absl::InvalidArgumentError("--batch: needs a plug-in: --device pjrt:PATH"));
    return;
  }
  for (const char* const key : {": data.train", ": data.test"}) {
    if (report.IsWrong(where + key)) return;  // a batch of wrong data would be wrong too
  }
  const auto tried = TryBatch(job, *train, test.get(), weights->get(), **program);
  if (!report.Take(where, tried)) return;
  out << tried->line << "\n";
  if (!optimizer.ok()) return;
  report.Take(where, SayNeeds(job, **program, *optimizer, flags, tried->rows.get(), out));
}

// The cluster that the flags ask for, or else TF_CONFIG or --cluster.
struct WantedCluster {
  std::optional<int64_t> ps, workers;
  std::string device = "auto";
  std::optional<Cluster> named;

  bool by_flags() const { return ps.has_value() || workers.has_value(); }
  // Returns the cluster of a job with this strategy; nullopt if nothing describes a cluster.
  std::optional<ClusterShape> ShapeFor(const std::string& strategy) const {
    ClusterShape shape =
        ShapeOf(ps.value_or(IsWithoutPs(strategy) ? 0 : 1), workers.value_or(1), device);
    // With --ps alone the number of workers is open.
    if (!workers.has_value() && ps.value_or(0) > 0) shape.workers = 0;
    const bool names_tasks = named.has_value() && named->ps.size() + named->workers.size() > 0;
    if (by_flags() || (!names_tasks && shape.devices > 1)) return shape;
    if (!names_tasks) return std::nullopt;
    shape.ps = named->ps.size();
    shape.workers = named->workers.size();
    shape.by_flags = false;
    return shape;
  }
};

// Reads the job for its cluster, if one is known, and prints the strategy there.
std::optional<Job> ReadJobFor(Files& files, const std::string& path,
                              std::vector<std::string> settings, const WantedCluster& wanted,
                              Problems& problems, std::ostream& out) {
  std::optional<Job> job = ReadUserJob(files, path, settings, problems);
  if (!job.has_value() || !problems.empty()) return job;
  std::string chosen = "parameter_server";  // like `paracord train` without a cluster
  const std::optional<ClusterShape> shape = wanted.ShapeFor(job->guarantees.strategy);
  const absl::Status stages =
      wanted.device == "auto" ? absl::OkStatus() : CheckStageDevices(*job, wanted.device);
  if (!stages.ok()) {
    problems.Add("", std::string(stages.message()));
    return job;
  }
  if (shape.has_value()) {
    const absl::StatusOr<StrategyChoice> choice = ChooseStrategy(job->guarantees, *shape);
    if (!choice.ok()) {
      problems.Add("", std::string(choice.status().message()));
      return job;
    }
    if (shape->ps == 0 || shape->by_flags) {
      out << "strategy: " << choice->name << ", because " << choice->why << "\n";
    }
    chosen = choice->name;
  }
  if (shape.has_value()) {
    const absl::Status copies = CheckCopies(*job, *shape);
    if (!copies.ok()) problems.Add("", std::string(copies.message()));
  }
  const std::vector<std::string> more = SettingsOf(job->guarantees, chosen);
  settings.insert(settings.end(), more.begin(), more.end());
  if (!more.empty()) job = ReadUserJob(files, path, settings, problems);
  if (job.has_value() && problems.empty() && shape.has_value()) {
    const absl::Status devices = CheckDevices(job->guarantees, *shape);
    if (!devices.ok()) problems.Add("", std::string(devices.message()));
  }
  return job;
}

// Returns the processes that hold the variables: two ps if nobody says anything of the cluster.
Holders HoldersOf(const std::optional<Job>& job, const std::optional<ClusterShape>& shape) {
  const bool one = job.has_value() && HasOneWorker(job->guarantees.strategy);
  if (!shape.has_value()) {
    const bool nodes = job.has_value() && IsWithoutPs(job->guarantees.strategy);
    return {.count = nodes ? 1u : 2u, .nodes = nodes, .one = one};
  }
  const bool nodes = shape->ps == 0;
  return {.count = static_cast<uint32_t>(nodes ? shape->workers : shape->ps),
          .nodes = nodes,
          .one = one};
}

// Returns how many devices compute lanes of a round, where the stages of a model count as one;
// nullopt if nobody says how many workers there are.
std::optional<size_t> DevicesIn(const Job& job, const std::optional<ClusterShape>& shape) {
  if (!shape.has_value() || (shape->by_flags && shape->workers == 0)) return std::nullopt;
  return shape->workers * (job.guarantees.stages.count > 1 ? 1 : shape->devices);
}

// The words of the command line.
struct ValidateWords {
  std::string job, memory_limit;
  std::vector<std::string> set;
  std::optional<std::string> cluster_path;
  WantedCluster cluster;
  bool batch = false;
  bool allow_programs = false;

  void AddTo(Flags& flags);
};

void ValidateWords::AddTo(Flags& flags) {
  flags.Positional("JOB", "the job file", &job);
  flags.Strings("set", "KEY=VALUE", kSetHelp, &set);
  flags.String("cluster", "FILE", "the cluster in TF_CONFIG's form, instead of TF_CONFIG",
               &cluster_path);
  flags.Integer("ps", "N",
                "parameter servers of the cluster, instead of TF_CONFIG; 0: workers hold the "
                "variables. Default: as train, or 2 where no cluster is known",
                0, kTrainPsMax, &cluster.ps);
  flags.Integer("workers", "N", "workers of the cluster, instead of TF_CONFIG", 1, kTrainWorkersMax,
                &cluster.workers);
  flags.String("device", "DEVICE",
               "what workers compute on: several devices, such as cpu:4, compute lanes of rounds; "
               "pjrt:PATH is the plug-in that compiles a program of StableHLO, which is only "
               "checked without one",
               &cluster.device);
  flags.Switch("allow-programs",
               "run the command of a job whose model is a program: code of whoever wrote the job",
               &allow_programs);
  flags.Switch("batch",
               "compute a batch, too, with the values with which the job begins, and say what its "
               "rows of tables ask of each ps",
               &batch);
  flags.String("memory-limit", "BYTES",
               "of each process that holds variables; with --batch: refuse what it cannot do",
               &memory_limit);
}

absl::Status CheckWords(const ValidateWords& words) {
  RETURN_IF_ERROR(CheckDeviceText(words.cluster.device, DeviceFor::kTraining));
  if (!words.cluster_path.has_value() || !words.cluster.by_flags()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--ps and --workers: --cluster says how many there are: leave the one or the other out");
}

}  // namespace

int RunValidate(Args args, std::ostream& out, std::ostream& err) {
  ValidateWords words;
  Flags flags("paracord validate",
              "Prints the plan of a job, or everything that is wrong with it.");
  words.AddTo(flags);
  const auto code = flags.ParseOrExit(args, "paracord validate", out, err);
  if (code.has_value()) return *code;
  const absl::Status fits = CheckWords(words);
  if (!fits.ok()) return Fail("validate", fits.message(), ExitCode::kConfiguration, err);

  Report report;
  AllFiles files;
  WantedCluster& cluster = words.cluster;
  if (!cluster.by_flags()) cluster.named = ReadCluster(files, words.cluster_path, report);
  if (cluster.named) {
    PrintCluster(*cluster.named, out);
    report.Take(words.cluster_path.value_or("TF_CONFIG"), PsAddressesOf(*cluster.named));
  }
  Problems problems;
  const std::optional<Job> job =
      ReadJobFor(files, AbsolutePath(words.job), words.set, cluster, problems, out);
  report.Take(words.job, problems.ToStatus());
  if (job) {
    const auto shape = cluster.ShapeFor(job->guarantees.strategy);
    const Holders holders = HoldersOf(job, shape);
    std::optional<uint64_t> limit;
    if (!words.memory_limit.empty()) {
      const auto bytes = MemoryLimitOf(words.memory_limit, holders);
      if (report.Take("paracord validate", bytes)) limit = *bytes;
    }
    report.Take(words.job, PrintRounds(*job, DevicesIn(*job, shape), out));
    const std::string plugin = IsPjrtDevice(cluster.device) ? cluster.device : "";
    CheckJob(files, *job, {holders, plugin, words.batch, words.allow_programs, limit}, words.job,
             report, out);
    report.Warn(words.job, JobWarnings(*job));
  }
  out.flush();  // before the problems
  return report.Say(err);
}

}  // namespace paracord
