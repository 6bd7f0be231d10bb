// paracord train: a whole cluster on this machine.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/local_cluster.h"
#include "cli/progress.h"
#include "cli/status_watch.h"
#include "cli/trace_file.h"
#include "cli/warnings.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "common/json_text.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "config/flags.h"
#include "config/job.h"
#include "coordinator/job_state.h"
#include "net/grpc_network.h"
#include "storage/checkpoint.h"
#include "worker/ops/device.h"

namespace paracord {
namespace {

struct TrainFlags {
  std::string job_file;
  int64_t ps = 1;
  int64_t workers = 1;
  std::string device = "auto";
  std::string dir;
  std::string log_level = "info";
  bool evaluator = false;
  bool fresh = false;
  bool json = false;
  std::string trace;
  std::string summary_before;  // text of the summary that an earlier run left
};

int Fail(const absl::Status& status, ExitCode code) {
  std::cerr << "paracord train: " << std::string(status.message()) << "\n";
  return static_cast<int>(code);
}

// Held while this process lives; a second train in the same DIR is refused.
absl::StatusOr<int> LockDir(const std::string& dir) {
  const std::string path = dir + "/lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot write " + path);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return absl::AlreadyExistsError(absl::StrCat("another paracord train works in ", dir,
                                                 ": wait for it or give another --dir"));
  }
  return fd;
}

// Everything that a job leaves behind, and nothing else.
absl::Status Clear(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(dir));
  for (const std::string& name : names) {
    const bool ours = name == "checkpoints" || name == "logs" || name == "trace" ||
                      name == "tensorboard" || name.starts_with("job.state-") ||
                      name == kSummaryName || name == kDoneSummaryName ||
                      name == "evaluations.jsonl" || name == "coordinator.address" ||
                      name.starts_with("generation-");
    if (ours) RETURN_IF_ERROR(files.RemoveTree(dir + "/" + name));
  }
  return absl::OkStatus();
}

absl::Status PrepareDir(Files& files, const TrainFlags& flags, Progress& progress) {
  if (flags.fresh) {
    RETURN_IF_ERROR(Clear(files, flags.dir));
  } else {
    const absl::StatusOr<std::vector<CheckpointName>> checkpoints =
        ListCheckpoints(files, flags.dir + "/checkpoints");
    // A damaged one is passed over.
    for (size_t i = 0; checkpoints.ok() && i < checkpoints->size(); ++i) {
      const std::string name = (*checkpoints)[i].ToString();
      const absl::Status sound =
          ReadManifest(files, absl::StrCat(flags.dir, "/checkpoints/", name)).status();
      progress.Event("resume",
                     sound.ok() ? absl::StrCat("going on from checkpoint ", name, " in ", flags.dir)
                                : "refused: " + std::string(sound.message()));
      if (sound.ok()) break;
    }
  }
  return files.MakeDirectories(flags.dir + "/logs");
}

void ShowDeaths(const std::vector<LocalCluster::Death>& deaths, const std::string& dir,
                Progress& progress) {
  for (const LocalCluster::Death& death : deaths) {
    if (death.code == 0) continue;  // it left because the job is done
    progress.Event("death",
                   absl::StrCat(death.task, " ended (", death.how, ")",
                                death.then.empty() ? "; see " + dir + "/logs" : " " + death.then));
  }
}

// The last line of a daemon's log: its last words say why it left.
std::string LastWords(Files& files, const std::string& log) {
  const absl::StatusOr<std::string> text = files.ReadWhole(log);
  if (!text.ok()) return "";
  const size_t end = text->find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const size_t begin = text->rfind('\n', end);
  return text->substr(begin + 1, end - begin);
}

// What the coordinator wrote at the end.
int ShowSummary(Files& files, const TrainFlags& flags, int coordinator_exit, Progress& progress) {
  const absl::StatusOr<std::string> text = files.ReadWhole(flags.dir + "/summary.json");
  const nlohmann::json summary = text.ok() ? JsonOf(*text) : nlohmann::json();
  progress.End();
  // A coordinator that refuses the job leaves an earlier run's summary alone.
  const bool earlier = coordinator_exit != 0 && text.ok() && *text == flags.summary_before;
  if (!summary.is_object() || earlier) {
    const std::string log = flags.dir + "/logs/coordinator.log";
    std::cerr << "paracord train: the coordinator ended with code " << coordinator_exit << ": "
              << LastWords(files, log) << "\n(" << log << ")\n";
    return coordinator_exit;
  }
  progress.ShowLast(summary);
  if (flags.json) {
    std::cout << TextOf(nlohmann::json({{"event", "end"}, {"summary", summary}})) << "\n";
    return coordinator_exit;
  }
  std::cout << summary.value("status", "") << ": " << summary.value("reason", "") << "\n";
  for (const auto& [set, metrics] : summary.at("metrics").items()) {
    for (const auto& [name, value] : metrics.items()) {
      std::cout << set << " " << name << ": " << value << "\n";
    }
  }
  std::cout << "summary: " << flags.dir << "/summary.json\n";
  if (summary.value("status", "") != "done" &&
      files.Open(absl::StrCat(flags.dir, "/", kDoneSummaryName)).ok()) {
    std::cout << "how the job was done before: " << flags.dir << "/" << kDoneSummaryName << "\n";
  }
  return coordinator_exit;
}

// It scores the final checkpoint after the others have left. A signal ends the waiting.
void WaitForEvaluator(LocalCluster& cluster, const TrainFlags& flags, const sigset_t& signals,
                      Progress& progress) {
  if (*cluster.coordinator_exit() != 0) return;
  while (cluster.EvaluatorRuns()) {
    const timespec wait{0, 200 * 1000 * 1000};
    const int signal = sigtimedwait(&signals, nullptr, &wait);
    if (signal == SIGINT || signal == SIGTERM) return;
    ShowDeaths(cluster.Reap(), flags.dir, progress);
  }
}

// What the coordinator said of its end after SIGTERM: with a checkpoint, or why without.
std::string StopReason(const TrainFlags& flags) {
  PosixFiles files;
  const nlohmann::json summary = JsonOf(files.ReadWhole(flags.dir + "/summary.json").value_or(""));
  return summary.is_object() ? summary.value("reason", "") : "the coordinator left no summary";
}

std::string ToGoOn(const TrainFlags& flags) {
  return absl::StrCat("paracord train ", flags.job_file, " --ps ", flags.ps, " --workers ",
                      flags.workers, " --dir ", flags.dir);
}

int Supervise(LocalCluster& cluster, GrpcNetwork& network, const TrainFlags& flags,
              const sigset_t& signals, Progress& progress) {
  StatusWatch watch(network, cluster.coordinator_address());
  constexpr int64_t kDrainMs = 30000;
  while (!cluster.coordinator_exit().has_value()) {
    watch.Ask();
    const timespec wait{0, 200 * 1000 * 1000};
    const int signal = sigtimedwait(&signals, nullptr, &wait);
    ShowDeaths(cluster.Reap(), flags.dir, progress);
    if (cluster.given_up().has_value() && !cluster.coordinator_exit().has_value()) {
      std::cerr << "paracord train: " << *cluster.given_up() << " died "
                << LocalCluster::kRestartsMax + 1 << " times without a batch in between; see "
                << flags.dir << "/logs\n";
      cluster.Drain(kDrainMs);
      return static_cast<int>(ExitCode::kFailed);
    }
    if (signal == SIGINT || signal == SIGTERM) {
      progress.Event("stop", "stopping: taking a checkpoint (once more to stop at once)");
      sigset_t leave = signals;
      sigdelset(&leave, SIGCHLD);
      ::signal(SIGINT, SIG_DFL);
      ::signal(SIGTERM, SIG_DFL);
      sigprocmask(SIG_UNBLOCK, &leave, nullptr);
      cluster.Drain(kDrainMs);
      progress.Event("stopped",
                     absl::StrCat("stopped (", StopReason(flags), "); to go on: ", ToGoOn(flags)));
      return static_cast<int>(ExitCode::kDrained);
    }
    if (const auto status = watch.newest(); status.has_value()) {
      cluster.BatchesApplied(status->value("applied_max", uint64_t{0}));
      progress.Show(*status);
    }
  }
  WaitForEvaluator(cluster, flags, signals, progress);
  constexpr int64_t kLeaveMs = 2000;
  cluster.WaitAll(kLeaveMs);
  PosixFiles files;
  return ShowSummary(files, flags, *cluster.coordinator_exit(), progress);
}

int Train(TrainFlags flags) {
  const absl::StatusOr<std::string> device = ChooseDevice(flags.device, nullptr);
  if (!device.ok()) return Fail(device.status(), ExitCode::kConfiguration);
  PosixFiles files;
  flags.job_file = std::filesystem::absolute(flags.job_file).lexically_normal().string();
  const absl::StatusOr<Job> job = ReadJobFile(files, flags.job_file);
  if (!job.ok()) return Fail(job.status(), ExitCode::kConfiguration);
  for (const std::string& warning : JobWarnings(*job)) {
    std::cerr << "paracord train: warning: " << warning << "\n";
  }
  if (flags.dir.empty()) flags.dir = "paracord-" + job->name;
  flags.dir = std::filesystem::absolute(flags.dir).lexically_normal().string();
  const absl::Status made = files.MakeDirectories(flags.dir);
  if (!made.ok()) return Fail(made, ExitCode::kConfiguration);
  const absl::StatusOr<int> lock = LockDir(flags.dir);
  if (!lock.ok()) return Fail(lock.status(), ExitCode::kInUse);
  const Progress::Style style = flags.json              ? Progress::Style::kJson
                                : isatty(STDOUT_FILENO) ? Progress::Style::kBar
                                                        : Progress::Style::kLines;
  Progress progress(style, std::cout);
  const absl::Status prepared = PrepareDir(files, flags, progress);
  flags.summary_before = files.ReadWhole(flags.dir + "/summary.json").value_or("");
  if (!prepared.ok()) return Fail(prepared, ExitCode::kConfiguration);

  // Before any other thread: they inherit the mask.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  LocalClusterOptions options;
  options.bin_dir = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  options.job_file = flags.job_file;
  options.dir = flags.dir;
  options.ps = static_cast<uint32_t>(flags.ps);
  options.workers = static_cast<uint32_t>(flags.workers);
  options.evaluator = flags.evaluator;
  options.device = flags.device;
  options.log_level = flags.log_level;
  if (!flags.trace.empty()) {
    options.trace_dir = flags.dir + "/trace";
    flags.trace = std::filesystem::absolute(flags.trace).lexically_normal().string();
    // Before the job runs: a file that cannot be written is known at once.
    absl::Status ready = files.RemoveTree(options.trace_dir);
    if (ready.ok()) ready = files.MakeDirectories(options.trace_dir);
    if (ready.ok()) ready = MergeTraces(files, options.trace_dir, flags.trace);
    if (!ready.ok()) return Fail(ready, ExitCode::kConfiguration);
  }
  LocalCluster cluster(options);
  // Processes are forked before gRPC starts threads here.
  const absl::Status started = cluster.Start();
  if (!started.ok()) return Fail(started, ExitCode::kConfiguration);
  progress.Event("start", absl::StrCat("training ", job->name, " with ", flags.ps, " ps and ",
                                       flags.workers, " workers in ", flags.dir));
  GrpcNetwork network;
  const int code = Supervise(cluster, network, flags, signals, progress);
  if (flags.trace.empty()) return code;
  cluster.WaitAll(0);
  absl::Status merged = MergeTraces(files, options.trace_dir, flags.trace);
  if (merged.ok()) merged = files.RemoveTree(options.trace_dir);
  if (!merged.ok()) return Fail(merged, ExitCode::kFailed);
  progress.Event("trace", absl::StrCat("trace: ", flags.trace, " (open it in Perfetto)"));
  return code;
}

}  // namespace

int RunTrain(Args args) {
  TrainFlags own;
  Flags flags("paracord train", "Trains a job on a cluster of processes on this machine.");
  flags.Positional("JOB", "the job file", &own.job_file);
  flags.Integer("ps", "N", "parameter servers", 1, 64, &own.ps);
  flags.Integer("workers", "N", "workers", 1, 256, &own.workers);
  flags.String("device", "DEVICE", "what workers compute on: auto, cpu or cuda:N", &own.device);
  flags.String("dir", "DIR", "where the job lives; default: paracord-<job name>", &own.dir);
  flags.String("log-level", "LEVEL", "of the daemons: debug, info, warn or error", &own.log_level);
  flags.Switch("evaluator", "one more process scores each checkpoint, in DIR/evaluations.jsonl",
               &own.evaluator);
  flags.Switch("fresh", "begin anew: remove what an earlier run left in DIR", &own.fresh);
  flags.String("trace", "FILE",
               "write what every process did when, for Perfetto or chrome://tracing", &own.trace);
  flags.Switch("json", "one JSON object a line instead of text", &own.json);
  const absl::Status parsed = flags.Parse(args);
  if (flags.help_wanted()) {
    std::cout << flags.Help();
    return 0;
  }
  if (!parsed.ok()) return Fail(parsed, ExitCode::kConfiguration);
  if (const std::string wrong = CheckLogLevel(own.log_level); !wrong.empty()) {
    return Fail(absl::InvalidArgumentError(wrong), ExitCode::kConfiguration);
  }
  return Train(std::move(own));
}

}  // namespace paracord
