#include "cli/train_checks.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/batch_needs.h"
#include "cli/checkpoint_choice.h"
#include "cli/data_look.h"
#include "cli/job_dir.h"
#include "cli/terminal.h"
#include "cli/user_job.h"
#include "cli/warnings.h"
#include "common/memory_budget.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "config/job_data.h"
#include "config/job_file.h"
#include "config/nodes.h"
#include "config/partitions.h"
#include "config/program_spec.h"
#include "coordinator/dir_start.h"
#include "coordinator/saved_job.h"
#include "daemon/daemon_process.h"
#include "data/data_source.h"
#include "data/file_glob.h"
#include "keras/build.h"
#include "keras/device_program.h"
#include "keras/tables.h"
#include "store/optimizer.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/device.h"

namespace paracord {
namespace {

bool HasTables(std::span<const VariableSpec> variables) {
  return std::ranges::any_of(variables, [](const VariableSpec& v) { return v.has_table(); });
}

// Measures the first batch. Only errors of the model are returned; problems of the data are left to
// the workers.
absl::StatusOr<BatchNeeds> MeasureFirst(Files& files, const Job& job, const Optimizer& optimizer,
                                        const Holders& holders) {
  const auto source = OpenDataSource(files, job.train);
  if (!source.ok()) return BatchNeeds();
  ASSIGN_OR_RETURN(const auto program,
                   BuildKerasProgram(job, (*source)->schema(), MakeCpuOps(/*threads=*/1)));
  const std::span<const VariableSpec> variables = program->variables();
  Batch batch;
  std::vector<uint64_t> records(std::min<uint64_t>(job.batch, (*source)->records()));
  std::iota(records.begin(), records.end(), 0);
  if (!(*source)->Read(records, batch).ok()) return BatchNeeds();
  const auto rows = program->RowsOf(batch);
  if (!rows.ok()) return BatchNeeds();
  return MeasureBatch(job, variables, optimizer, holders, rows->get());
}

// Whether the job in the directory is done already, so that no data will be read.
bool IsDone(Files& files, const TrainFlags& flags, Job job) {
  if (flags.fresh) return false;
  std::optional<std::string>& weights = job.initial_weights.file;
  if (weights.has_value() && IsKerasFileName(*weights)) {  // the name that PlacedWeights gives them
    weights = absl::StrCat(flags.dir, "/", kInitialWeightsName);
  }
  DirStart start(files, flags.dir, std::move(job), /*boot_id=*/"", flags.accept_changes,
                 /*keeps_job=*/false);
  return start.FindsDone();
}

// Refuses a path that no worker could open as data; `path` is the first of `found` files of the
// key.
absl::Status CheckDataFile(Files& files, const std::string& key, const std::string& path,
                           size_t found) {
  const bool is_folder = files.List(path).ok();
  if (key == "folder" || key.ends_with(".folder")) {  // a folder of image files
    if (is_folder) return absl::OkStatus();
    const bool is_file = files.Open(path).ok();
    return is_file ? absl::InvalidArgumentError("is a file, and images are read from a folder")
                   : files.List(path).status();
  }
  if (is_folder) {
    return absl::InvalidArgumentError("is a folder, and data are read from files: name the file");
  }
  const absl::StatusOr<std::unique_ptr<ReadFile>> file = files.Open(path);
  if (absl::IsInvalidArgument(file.status())) {
    return absl::InvalidArgumentError("is not a regular file: name the file that holds the data");
  }
  RETURN_IF_ERROR(file.status());
  if (found > 1 || (*file)->size() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("is empty: make or download the data anew");
}

// Checks all paths of `spec`, the source of the job's key `data`.
absl::Status CheckSource(Files& files, const std::string& data, const DataSpec& spec) {
  for (const SourcePath& source : PathsOf(spec)) {
    const std::string key = absl::StrCat(data, ".", source.key);
    const std::string scheme = SchemeOf(source.path);
    if (!scheme.empty() && scheme != "s3") {
      return absl::InvalidArgumentError(absl::StrCat(
          key, ": ", source.path, ": nobody reads ", scheme,
          "://, only files and s3:// are read: download the data first, or put them there"));
    }
    if (!scheme.empty()) continue;
    const auto found = ExpandGlob(files, source.path);
    absl::Status wrong = found.status();
    if (found.ok() && !found->empty()) {
      wrong = CheckDataFile(files, source.key, found->front(), found->size());
    }
    if (absl::IsNotFound(wrong)) {
      return absl::NotFoundError(
          absl::StrCat(key, ": ", found.ok() ? "there is no file " : "no file matches ",
                       source.path, ": make or download the data first, or correct the path"));
    }
    // Other errors may pass, and are left to the reader.
    if (!absl::IsInvalidArgument(wrong) && !absl::IsPermissionDenied(wrong)) continue;
    const std::string& path = found.ok() ? found->front() : source.path;
    const bool named = absl::StrContains(wrong.message(), path);
    return absl::Status(wrong.code(), absl::StrCat(key, ": ", named ? "" : path + " ",
                                                   std::string(wrong.message())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> MemoryLimitOf(const std::string& memory_limit, const Holders& holders) {
  DaemonFlags daemon;
  daemon.memory_limit = memory_limit;
  return daemon.MemoryLimit(MemoryBudget::kLimitMin * (holders.nodes ? kNodeMemoryParts : 1));
}

absl::StatusOr<BatchNeeds> NeedsIn(Files& files, const Job& job, const Holders& holders,
                                   uint64_t memory_limit) {
  const absl::StatusOr<Optimizer> optimizer = ParseOptimizer(job.optimizer);
  if (IsProgram(job.model) || !optimizer.ok()) return BatchNeeds();
  const DeclaredModel declared = Declare(job, MakeCpuOps(/*threads=*/1));
  BatchNeeds needs;
  const bool known = !declared.variables.empty();
  if (known) {
    RETURN_IF_ERROR(CheckVariables(declared.variables));
    const TableRows most = MostRows(declared.variables, declared.rows);
    const bool tables = HasTables(declared.variables);
    ASSIGN_OR_RETURN(needs, MeasureBatch(job, declared.variables, *optimizer, holders,
                                         tables ? &most : nullptr));
    needs.at_most = true;
  }
  if (known && (CheckNeeds(needs, memory_limit).ok() || !HasTables(declared.variables))) {
    return needs;
  }
  ASSIGN_OR_RETURN(BatchNeeds first, MeasureFirst(files, job, *optimizer, holders));
  if (!first.ps.empty() || !known) return first;
  // The rows are unknown before a batch is read.
  return MeasureBatch(job, declared.variables, *optimizer, holders, nullptr);
}

absl::Status CheckFits(Files& files, const Job& job, const Holders& holders,
                       std::optional<uint64_t> memory_limit, std::vector<std::string>& lines) {
  const uint64_t limit = memory_limit.value_or(MemoryBudget::kUnlimited);
  ASSIGN_OR_RETURN(const BatchNeeds needs, NeedsIn(files, job, holders, limit));
  RETURN_IF_ERROR(CheckNeeds(needs, limit));
  for (std::string& line : NeedLines(needs, memory_limit)) lines.push_back(std::move(line));
  return absl::OkStatus();
}

ClusterShape ShapeOf(int64_t ps, int64_t workers, const std::string& device) {
  ClusterShape shape{.ps = static_cast<size_t>(ps),
                     .workers = static_cast<size_t>(workers),
                     .divides_batches = device == kAllGpus,
                     .by_flags = true};
  // The number of devices that "auto" and "cuda:all" mean on other hosts is unknown here.
  if (const auto devices = DevicesOf(device); devices.ok()) shape.devices = devices->size();
  return shape;
}

absl::StatusOr<JobInCluster> ReadJobOf(Files& files, TrainFlags& flags) {
  const auto read = [&](std::span<const std::string> settings) {
    return ReadUserJob(files, flags.job_file, settings);
  };
  ASSIGN_OR_RETURN(const Job job, read(flags.set));
  RETURN_IF_ERROR(CheckStageDevices(job, flags.device));
  if (!flags.ps.has_value()) flags.ps = IsWithoutPs(job.guarantees.strategy) ? 0 : 1;
  if (flags.dir.empty()) flags.dir = "paracord-" + job.name;
  flags.dir = AbsolutePath(flags.dir);
  const auto saved = [&]() -> std::optional<Job> {
    std::optional<SavedJob> before;
    if (!flags.fresh) before = ReadSavedJob(files, flags.dir);
    if (!before.has_value()) return std::nullopt;
    return std::move(before->job);
  };
  return ReadJobIn(ShapeOf(*flags.ps, flags.workers, flags.device), flags.set, read, saved);
}

std::string StartText(const TrainFlags& flags, const JobInCluster& job, const std::string& where) {
  const std::string workers =
      absl::StrCat(flags.workers, flags.workers == 1 ? " worker" : " workers");
  const std::string cluster =
      *flags.ps > 0
          ? absl::StrCat(*flags.ps, " ps and ", workers)
          : absl::StrCat(workers, " without ps (", job.strategy.name, ": ", job.strategy.why, ")");
  return absl::StrCat("training ", job.job.name, " with ", cluster, " on ", where, " in ",
                      flags.dir);
}

absl::StatusOr<std::string> WhereItComputes(const TrainFlags& flags) {
  if (flags.ssh.has_value()) {
    const size_t hosts = flags.ssh->hosts.size();
    return absl::StrCat(hosts, hosts == 1 ? " host" : " hosts");
  }
  ASSIGN_OR_RETURN(const std::string device,
                   ChooseDevice(flags.device, DeviceFor::kTraining, nullptr));
  const bool in_turn = flags.device == "auto" && flags.workers > 1 && device != "cpu";
  return in_turn ? "the GPUs in turn" : device;
}

absl::Status KeepNotes(Files& files, const std::string& dir,
                       const std::vector<std::string>& notes) {
  return files.WriteAtomic(dir + "/logs/notes.txt", absl::StrCat(absl::StrJoin(notes, "\n"), "\n"));
}

absl::Status CheckDataFiles(Files& files, const Job& job, bool resumes) {
  RETURN_IF_ERROR(CheckSource(files, "data.train", job.train));
  const std::string weights = job.initial_weights.file.value_or("");
  if (!resumes && !weights.empty() && SchemeOf(weights).empty() &&
      absl::IsNotFound(files.Open(weights).status())) {
    return absl::NotFoundError(absl::StrCat("initial_weights: there is no file ", weights,
                                            ": correct the path, or leave the key out"));
  }
  return job.test.has_value() ? CheckSource(files, "data.test", *job.test) : absl::OkStatus();
}

absl::Status CheckModel(const Job& job) {
  RETURN_IF_ERROR(ParseOptimizer(job.optimizer).status());
  for (const auto& [layer, table] : job.tables.by_layer) {
    if (!table.optimizer.has_value()) continue;
    const std::string key = absl::StrCat("tables.", layer, ".optimizer");
    RETURN_IF_ERROR(ParseTableOptimizer(*table.optimizer, key).status());
  }
  if (IsProgram(job.model)) return absl::OkStatus();
  return CheckKerasModel(job, MakeCpuOps(/*threads=*/1));
}

absl::Status CheckBeforeStart(Files& files, const TrainFlags& flags, const Job& job,
                              std::vector<std::string>& notes) {
  const auto say = [&](const char* what, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      TerminalErr() << "paracord " << flags.command << ": " << what << ": " << ForTerminal(line)
                    << "\n";
    }
  };
  const bool here = !flags.ssh.has_value() && !IsDone(files, flags, job);
  const bool resumes = !flags.fresh && NewestCheckpoint(files, flags.dir).has_value();
  if (here) RETURN_IF_ERROR(CheckDataFiles(files, job, resumes));
  RETURN_IF_ERROR(CheckModel(job));
  // A job that goes on has these data: their fingerprint is in its checkpoint.
  std::vector<std::string> doubts;
  if (here && !resumes) RETURN_IF_ERROR(CheckFirstRecords(files, job, doubts));
  say("warning", doubts);
  say("warning", JobWarnings(job));
  const Holders holders{.count = static_cast<uint32_t>(*flags.ps > 0 ? *flags.ps : flags.workers),
                        .nodes = *flags.ps == 0,
                        .one = HasOneWorker(job.guarantees.strategy)};
  std::optional<uint64_t> limit;  // nullopt: the memory of other hosts is unknown here
  if (!flags.ssh.has_value() || !flags.memory_limit.empty()) {
    ASSIGN_OR_RETURN(limit, MemoryLimitOf(flags.memory_limit, holders));
  }
  notes = TableNotes(job);
  const absl::Status fits = CheckFits(files, job, holders, limit, notes);
  if (flags.verbose) say("note", notes);
  return fits;
}

}  // namespace paracord
