#include "cli/train.h"

#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/checkpoint_choice.h"
#include "cli/commands.h"
#include "cli/job_dir.h"
#include "cli/local_cluster.h"
#include "cli/out_file.h"
#include "cli/own_folder.h"
#include "cli/progress.h"
#include "cli/ssh_hosts.h"
#include "cli/status_watch.h"
#include "cli/terminal.h"
#include "cli/trace_file.h"
#include "cli/train_checks.h"
#include "cli/train_end.h"
#include "cli/user_job.h"
#include "common/descriptors.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "common/log.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "common/steady_ms.h"
#include "config/flags.h"
#include "config/job.h"
#include "config/job_settings.h"
#include "config/program_spec.h"
#include "config/strategy.h"
#include "coordinator/core/job_state.h"
#include "coordinator/saved_job.h"
#include "daemon/daemon_process.h"
#include "keras/build.h"
#include "net/grpc/network.h"
#include "store/initial_weights.h"
#include "tensor/cpu/cpu_ops.h"

namespace paracord {
namespace {

constexpr std::chrono::seconds kSilence(5);  // a coordinator that starts may not answer for so long
constexpr int64_t kLeaveMs = 3000;
constexpr int64_t kDrainMarginMs = 5000;  // beyond the job's own drain_ms

int Fail(const TrainFlags& flags, const absl::Status& status, ExitCode code) {
  return Fail(flags.command, status.message(), code, TerminalErr());
}

int Refuse(const TrainFlags& flags, const absl::Status& status) {
  return Fail(flags, status, ExitCode::kConfiguration);
}

// Fails with the exit code for a DIR that another train uses, or that cannot be used.
int FailOfDir(const TrainFlags& flags, const absl::Status& status) {
  const bool taken = absl::IsAlreadyExists(status);
  return Fail(flags, status, taken ? ExitCode::kInUse : ExitCode::kConfiguration);
}

// Removes the spans of earlier trains that were killed.
absl::Status RemoveTraceDirs(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(dir));
  for (const std::string& name : names) {
    if (name.starts_with(kTraceDirPrefix)) RETURN_IF_ERROR(files.RemoveTree(dir + "/" + name));
  }
  return absl::OkStatus();
}

// Writes the files that daemons in `dir` need when they start, now or later.
absl::Status Furnish(Files& files, const std::string& dir, const std::string& job_json) {
  RETURN_IF_ERROR(files.MakeDirectories(dir + "/logs"));
  return files.WriteAtomic(absl::StrCat(dir, "/", kRunningJobName), job_json);
}

// Shows which variables are drawn because `initial_weights` lacks them, and which tensors in the
// file belong to no variable. Errors are left to the ps, which reads the file anyway. Nothing is
// shown for a model whose variables are known only once the data are opened.
void ShowDrawn(Files& files, const Job& job, Progress& progress) {
  if (!job.initial_weights.file.has_value() || IsProgram(job.model)) return;
  const std::vector<VariableSpec> variables = DeclaredVariables(job, MakeCpuOps(/*threads=*/1));
  if (variables.empty()) return;
  const auto weights = InitialWeights::Open(files, job, variables);
  if (!weights.ok() || *weights == nullptr) return;
  const std::string drawn = (*weights)->Drawn(variables);
  if (!drawn.empty()) progress.Event("weights", drawn);
}

// The options of a network that reaches the coordinator.
absl::StatusOr<GrpcOptions> GrpcOf(const TrainFlags& flags) {
  GrpcOptions options;
  SecurityOptions security = SecurityOf(flags.certs, "operator", flags.insecure);
  security.nodes.coordinator = *flags.ps == 0;
  RETURN_IF_ERROR(SetUpSecurity(security, /*task=*/"", /*listens=*/false, options));
  return options;
}

// Returns the job's text.
absl::StatusOr<std::string> PrepareDir(Files& files, const TrainFlags& flags, Job& job,
                                       Progress& progress) {
  const auto newest = NewestCheckpoint(files, flags.dir);
  const bool resumes = !flags.fresh && newest.has_value();
  // The weights are read before anything of an earlier run is removed.
  ASSIGN_OR_RETURN(const PlacedWeights weights, PlacedWeights::Read(files, job, resumes));
  if (flags.fresh) {
    ASSIGN_OR_RETURN(const GrpcOptions options, GrpcOf(flags));
    GrpcNetwork network(options);
    RETURN_IF_ERROR(BeginAnew(files, network, flags.dir));
  } else if (resumes) {
    // Damage that shows only on reading is found by the ps, which refuses the checkpoint.
    progress.Event("resume", absl::StrCat("going on from checkpoint ", newest->name.ToString(),
                                          " in ", flags.dir));
  }
  RETURN_IF_ERROR(weights.Place(files, flags.dir, job));
  const std::optional<SavedJob> before = ReadSavedJob(files, flags.dir);
  if (before.has_value()) RETURN_IF_ERROR(CheckGoesOn(*before, job, flags.accept_changes));
  if (!resumes) ShowDrawn(files, job, progress);
  RETURN_IF_ERROR(RemoveTraceDirs(files, flags.dir));
  std::string job_json = JobToJson(job);
  RETURN_IF_ERROR(Furnish(files, flags.dir, job_json));
  return job_json;
}

void ShowDeaths(const std::vector<LocalCluster::Death>& deaths, Progress& progress) {
  for (const LocalCluster::Death& death : deaths) {
    if (death.code == 0 || death.ends_job) continue;
    progress.Event("death",
                   absl::StrCat(death.task, " ended (", death.how, ")",
                                death.then.empty() ? "; see " + death.log : " " + death.then));
  }
}

// Waits for the evaluator to score the final checkpoint, which it does after the others have left.
// A signal ends the waiting.
void WaitForEvaluator(LocalCluster& cluster, const sigset_t& signals, Progress& progress) {
  if (*cluster.coordinator_exit() != 0) return;
  for (int looks = 0; cluster.EvaluatorRuns(); ++looks) {
    if (looks == 15) {
      progress.Event("waiting",
                     "waiting for the evaluator to score the final checkpoint; the job "
                     "is done (Ctrl-C leaves it)");
    }
    const timespec wait{0, 200 * 1000 * 1000};
    const int signal = sigtimedwait(&signals, nullptr, &wait);
    if (signal > 0 && signal != SIGCHLD) return;
    ShowDeaths(cluster.Reap(), progress);
  }
}

std::string ToGoOn(const TrainFlags& flags) {
  std::string settings;
  for (const std::string& setting : flags.set) {
    absl::StrAppend(&settings, " --set ", ShellWord(setting));
  }
  return absl::StrCat("paracord ", flags.command, " ", ShellWord(flags.job_file), flags.on_hosts,
                      settings, " --ps ", *flags.ps, " --workers ", flags.workers,
                      flags.device == "auto" ? "" : " --device " + flags.device,
                      flags.memory_limit.empty() ? "" : " --memory-limit " + flags.memory_limit,
                      flags.evaluator ? " --evaluator" : "",
                      flags.http.empty() ? "" : " --http " + flags.http,
                      flags.insecure ? " --insecure" : "", " --dir ", ShellWord(flags.dir));
}

struct Supervision {
  TrainEnd end;
  int lock;  // the lock file of end.dir
  std::string job_json;
  int64_t drain_ms = 0;     // how long each group of daemons may take to leave
  sigset_t signals;         // the blocked signals
  std::string dir_problem;  // the last problem reported
  StatusWatch* watch = nullptr;
};

// Stops the cluster, and says whom it waits for and, as far as the coordinator knows, why. A second
// Ctrl-C kills the daemons. A second SIGHUP does not: when a terminal closes, both shell and kernel
// may send one.
void Drain(LocalCluster& cluster, const Supervision& supervision, int signal, Progress& progress) {
  constexpr int64_t kSayMs = 3000;
  progress.Event("stop", "stopping: taking a checkpoint (once more to stop at once)");
  sigset_t leave = supervision.signals;
  for (const int stays : {SIGCHLD, SIGHUP}) sigdelset(&leave, stays);
  int64_t say_at_ms = SteadyMs() + kSayMs;
  const auto goes_on = [&](const std::string& tasks, int64_t left_ms) {
    const timespec now{0, 0};
    if (sigtimedwait(&leave, nullptr, &now) > 0) {
      progress.Event("stop", "stopped at once: batches after the last checkpoint are lost");
      return false;
    }
    if (supervision.watch != nullptr) supervision.watch->Ask();
    if (SteadyMs() < say_at_ms) return true;
    say_at_ms = SteadyMs() + kSayMs;
    std::string why;
    if (supervision.watch != nullptr && supervision.watch->age_ms() < kSayMs) {
      const auto status = supervision.watch->newest();
      if (status.has_value()) why = status->value("waiting", "");
    } else if (supervision.watch != nullptr && cluster.CoordinatorRuns()) {
      why = "the coordinator does not answer: " + supervision.watch->problem();
    }
    progress.Event("stop",
                   absl::StrCat("waiting for ", tasks, " to leave, at most ", left_ms / 1000,
                                " s more", why.empty() ? "" : " (" + why, why.empty() ? "" : ")"));
    return true;
  };
  cluster.Drain(supervision.drain_ms, signal, goes_on);
}

// Furnishes DIR again if somebody removed or moved it. Returns false if another train works there
// now.
bool KeepDir(Files& files, Supervision& supervision, Progress& progress) {
  const std::string& dir = supervision.end.dir;
  if (HoldsDir(supervision.lock, dir)) return true;
  const absl::Status again = [&]() -> absl::Status {
    RETURN_IF_ERROR(files.MakeDirectories(dir));
    ASSIGN_OR_RETURN(const int lock, TakeDir(files, dir));
    close(std::exchange(supervision.lock, lock));
    return Furnish(files, dir, supervision.job_json);
  }();
  if (absl::IsAlreadyExists(again)) {
    progress.End();
    TerminalErr() << "paracord " << supervision.end.command << ": " << dir
                  << " was removed or moved, and another paracord train works there now: this one "
                  << "ends\n";
    return false;
  }
  const std::string said = absl::StrCat(
      dir, " was removed or moved, with its checkpoints; ",
      again.ok() ? "it is made again for later checkpoints" : std::string(again.message()));
  if (std::exchange(supervision.dir_problem, said) != said) progress.Event("directory", said);
  return true;
}

// Ends a job that cannot go on without a lost daemon; returns the exit code.
int GiveUp(LocalCluster& cluster, const Supervision& supervision, Progress& progress) {
  const LocalCluster::Death lost = *cluster.given_up();
  PosixFiles files;
  // A coordinator that ends the job tells the others before it leaves.
  if (lost.code >= kRestartMayHelp || !cluster.WaitForCoordinator(kLeaveMs)) {
    Drain(cluster, supervision, SIGTERM, progress);
  }
  if (const auto code = cluster.coordinator_exit(); code.has_value()) {
    cluster.WaitAll(kLeaveMs);
    return ShowEnd(files, supervision.end, *code, progress);
  }
  progress.End();
  TerminalErr() << "paracord " << supervision.end.command << ": " << GivenUpText(files, lost)
                << "\n";
  const bool refused = lost.code == static_cast<int>(ExitCode::kConfiguration);
  progress.Event("stopped",
                 StoppedText(files, supervision.end, refused ? "once that is mended, " : ""));
  return lost.code < kRestartMayHelp ? lost.code : static_cast<int>(ExitCode::kFailed);
}

int Supervise(LocalCluster& cluster, GrpcNetwork& network, Supervision& supervision,
              Progress& progress) {
  StatusWatch watch(network, cluster.coordinator_address());
  supervision.watch = &watch;
  const auto begun = std::chrono::steady_clock::now();
  std::string problem;
  PosixFiles files;
  while (!cluster.coordinator_exit().has_value()) {
    watch.Ask(progress.epochs_shown());
    const timespec wait{0, 200 * 1000 * 1000};
    const int signal = sigtimedwait(&supervision.signals, nullptr, &wait);
    ShowDeaths(cluster.Reap(), progress);
    if (!KeepDir(files, supervision, progress)) {
      Drain(cluster, supervision, SIGTERM, progress);
      return static_cast<int>(ExitCode::kInUse);
    }
    if (cluster.given_up().has_value() && !cluster.coordinator_exit().has_value()) {
      return GiveUp(cluster, supervision, progress);
    }
    if (signal > 0 && signal != SIGCHLD) {
      Drain(cluster, supervision, signal, progress);
      if (cluster.coordinator_exit() == 0) break;  // it was done meanwhile
      progress.Event("stopped", StoppedText(files, supervision.end));
      return static_cast<int>(ExitCode::kDrained);
    }
    if (const auto status = watch.newest(); status.has_value()) {
      cluster.BatchesApplied(status->value("applied_max", uint64_t{0}));
      progress.Show(*status, watch.age_ms(), watch.problem());
    } else if (std::chrono::steady_clock::now() - begun > kSilence && watch.problem() != problem) {
      problem = watch.problem();
      progress.Event("waiting", "waiting for the coordinator: " + problem);
    }
  }
  WaitForEvaluator(cluster, supervision.signals, progress);
  cluster.WaitAll(kLeaveMs);
  return ShowEnd(files, supervision.end, *cluster.coordinator_exit(), progress);
}

SecurityOptions SecurityOfCoordinator(const TrainFlags& flags) {
  return SecurityOf(flags.certs, "coordinator", flags.insecure);
}

absl::StatusOr<LocalClusterOptions> OptionsOf(const TrainFlags& flags) {
  LocalClusterOptions options;
  ASSIGN_OR_RETURN(options.bin_dir, OwnFolder());
  options.job_file = absl::StrCat(flags.dir, "/", kRunningJobName);
  options.dir = flags.dir;
  options.ps = static_cast<uint32_t>(*flags.ps);
  options.workers = static_cast<uint32_t>(flags.workers);
  options.evaluator = flags.evaluator;
  options.device = flags.device;
  options.threads = flags.threads;
  options.memory_limit = flags.memory_limit;
  options.accept_changes = flags.accept_changes;
  options.log_level = flags.log_level;
  options.http = flags.ssh.has_value() ? flags.http : WithPort(flags.http);
  options.ssh = flags.ssh;
  options.certs = flags.certs;
  options.insecure = flags.insecure;
  return options;
}

// Writes an empty trace before the job runs, so that a path that cannot be written is an error at
// once.
absl::Status PrepareTrace(Files& files, const TrainFlags& flags, LocalClusterOptions& options) {
  if (flags.trace.empty()) return absl::OkStatus();
  options.trace_dir = absl::StrCat(flags.dir, "/", std::string(kTraceDirPrefix), getpid());
  RETURN_IF_ERROR(files.MakeDirectories(options.trace_dir));
  return MergeTraces(files, options.trace_dir, flags.trace);
}

// Refuses a DIR in an object store: the logs and the lock of these commands need a directory.
absl::Status CheckDir(const TrainFlags& flags) {
  if (SchemeOf(flags.dir) != "s3") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--dir ", flags.dir,
                   ": this command keeps logs and a lock in DIR, which has to be a directory; the "
                   "daemons themselves take s3://"));
}

// Called before --fresh removes anything.
absl::Status CheckTrace(Files& files, TrainFlags& flags) {
  if (flags.trace.empty()) return absl::OkStatus();
  flags.trace = AbsolutePath(flags.trace);
  RETURN_IF_ERROR(CheckNotOfJob("--trace", flags.dir, flags.trace));
  return CheckTraceFile(files, flags.trace);
}

int RunCluster(const TrainFlags& flags, const LocalClusterOptions& options,
               const std::string& start, Supervision supervision, Progress& progress) {
  const absl::StatusOr<GrpcOptions> grpc = GrpcOf(flags);
  if (!grpc.ok()) return Refuse(flags, grpc.status());
  LocalCluster cluster(options);
  // Start forks before gRPC has threads in this process, except with --fresh, which asks a
  // coordinator.
  const absl::Status started = cluster.Start();
  if (!started.ok()) return Refuse(flags, started);
  progress.Event("start", start);
  if (!flags.http.empty()) {
    const bool any_port = options.http.ends_with(":0");  // on another host
    const char* const scheme =
        ServesHttps(options.http, SecurityOfCoordinator(flags)) ? "https://" : "http://";
    progress.Event("http", any_port ? absl::StrCat("the page is where ", flags.dir, "/logs/",
                                                   FileName(LeaderOf(options)), ".log says")
                                    : absl::StrCat("the page is at ", scheme, options.http, "/"));
  }
  GrpcNetwork network(*grpc);
  const int code = Supervise(cluster, network, supervision, progress);
  if (flags.trace.empty()) return code;
  cluster.WaitAll(0);
  PosixFiles files;
  absl::Status merged = MergeTraces(files, options.trace_dir, flags.trace);
  if (merged.ok()) merged = files.RemoveTree(options.trace_dir);
  if (!merged.ok()) return Fail(flags, merged, ExitCode::kFailed);
  progress.Event("trace", absl::StrCat("trace: ", flags.trace, " (open it in Perfetto)"));
  return code;
}

Progress::Style StyleOf(const TrainFlags& flags) {
  if (flags.json) return Progress::Style::kJson;
  // The daemons' lines, which come over ssh, would tear a bar.
  const bool bar = isatty(STDOUT_FILENO) != 0 && !flags.ssh.has_value();
  return bar ? Progress::Style::kBar : Progress::Style::kLines;
}

int Train(TrainFlags flags) {
  const absl::Status enough = WantDescriptors(kOwnDescriptors);
  if (!enough.ok()) return Refuse(flags, enough);
  // The signals are blocked before a GPU's driver starts threads, which inherit the mask.
  sigset_t signals = LeaveSignals();
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const absl::StatusOr<std::string> where = WhereItComputes(flags);
  if (!where.ok()) return Refuse(flags, where.status());
  PosixFiles files;
  flags.job_file = AbsolutePath(flags.job_file);
  absl::StatusOr<JobInCluster> read = ReadJobOf(files, flags);
  if (!read.ok()) return Refuse(flags, read.status());
  Job* const job = &read->job;
  std::vector<std::string> notes;
  const absl::Status fits = CheckBeforeStart(files, flags, *job, notes);
  if (!fits.ok()) return Refuse(flags, fits);
  const absl::Status usable = CheckDir(flags);
  if (!usable.ok()) return Refuse(flags, usable);
  const absl::Status traceable = CheckTrace(files, flags);
  if (!traceable.ok()) return Refuse(flags, traceable);
  const absl::Status made = files.MakeDirectories(flags.dir);
  if (!made.ok()) return Refuse(flags, made);
  const absl::StatusOr<int> lock = TakeDir(files, flags.dir);
  if (!lock.ok()) return FailOfDir(flags, lock.status());
  signal(SIGPIPE, SIG_IGN);  // nobody has to read on for a job to end
  Progress progress(
      StyleOf(flags), std::cout, [] { return TerminalColumns(STDOUT_FILENO); }, ColoursWanted());
  const absl::StatusOr<std::string> job_json = PrepareDir(files, flags, *job, progress);
  if (!job_json.ok()) return FailOfDir(flags, job_json.status());
  const absl::Status noted = KeepNotes(files, flags.dir, notes);
  if (!noted.ok()) return FailOfDir(flags, noted);
  const std::string before =
      files.ReadWhole(absl::StrCat(flags.dir, "/", kSummaryName)).value_or("");
  absl::StatusOr<LocalClusterOptions> options = OptionsOf(flags);
  if (!options.ok()) return Refuse(flags, options.status());
  const std::string log = absl::StrCat(flags.dir, "/logs/", FileName(LeaderOf(*options)), ".log");
  const Supervision supervision{{flags.dir, before, ToGoOn(flags), flags.json, flags.command, log},
                                *lock,
                                *job_json,
                                job->timeouts.drain_ms + kDrainMarginMs,
                                signals,
                                ""};
  const absl::Status ready = PrepareTrace(files, flags, *options);
  if (!ready.ok()) return Refuse(flags, ready);
  return RunCluster(flags, *options, StartText(flags, *read, *where), supervision, progress);
}

}  // namespace

int TrainAndReport(TrainFlags flags) {
  umask(077);  // logs and all else is for its own user, as what a daemon writes
  const std::string command = flags.command;
  if (const std::string wrong = CheckLogLevel(flags.log_level); !wrong.empty()) {
    return Refuse(flags, absl::InvalidArgumentError(wrong));
  }
  const absl::Status http = CheckHttp(flags.http, SecurityOfCoordinator(flags));
  if (!http.ok()) return Refuse(flags, http);
  const int code = Train(std::move(flags));
  if (TerminalOut().flush() && std::cout.flush()) return code;
  TerminalErr()
      << "paracord " << command
      << ": not all output could be written to standard output; the result of the job is in its "
         "directory\n";
  TerminalOut().clear();
  std::cout.clear();
  return code;
}

int RunTrain(Args args) {
  TrainFlags own;
  Flags flags("paracord train",
              "Trains a job on a cluster of processes on this machine. Before it starts one, it\n"
              "refuses what is wrong with the job and the first 1,000 records of its data, in the\n"
              "words of `paracord validate`. Of files beyond 256 MiB it looks at CSV and TFRecord\n"
              "alone.");
  own.AddTo(flags);
  flags.String(
      "trace", "FILE",
      "write what every process did when, for Perfetto or chrome://tracing; what is there is "
      "replaced only if it is a trace",
      &own.trace);
  flags.Switch("json", "one JSON object a line instead of text", &own.json);
  const auto refused = flags.ParseOrExit(args, "paracord train", TerminalOut(), TerminalErr());
  return refused.has_value() ? *refused : TrainAndReport(std::move(own));
}

}  // namespace paracord
