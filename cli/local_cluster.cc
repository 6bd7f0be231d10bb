#include "cli/local_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "common/json_text.h"
#include "common/kernel_file.h"
#include "common/spawn.h"
#include "common/status_macros.h"
#include "daemon/security_flags.h"
#include "net/socket_address.h"
#include "nlohmann/json.hpp"

namespace paracord {
namespace {

constexpr std::chrono::milliseconds kFirstPause(250);  // before the second restart, then doubled
// A remote host that reboots, or a lost connection, takes longer.
constexpr std::chrono::milliseconds kFirstRemotePause(2000);
constexpr int kSshFailed = 255;

// Returns how many processes the kernel has killed because memory was short, on the machine or in a
// container; 0 if it does not say.
uint64_t OomKills(const std::string& vmstat) {
  std::istringstream file(ReadKernelFile(vmstat));
  std::string key;
  uint64_t value = 0;
  while (file >> key >> value) {
    if (key == "oom_kill") return value;
  }
  return 0;
}

}  // namespace

std::string FileName(const Task& task) {
  return task.role == Role::kCoordinator ? "coordinator"
                                         : absl::StrCat(RoleName(task.role), "-", task.index);
}

Task LeaderOf(const LocalClusterOptions& options) {
  return Task{options.ps == 0 ? Role::kWorker : Role::kCoordinator, 0};
}

LocalCluster::LocalCluster(LocalClusterOptions options)
    : options_(std::move(options)),
      hosts_(options_.ssh.has_value() ? std::optional<SshHosts>(std::in_place, *options_.ssh,
                                                                options_.ps, options_.workers)
                                      : std::nullopt) {}

LocalCluster::~LocalCluster() { WaitAll(0); }

std::string WithPort(const std::string& address) {
  if (!address.ends_with(":0")) return address;
  const absl::StatusOr<ListeningSockets> sockets = ListenAt(address);
  if (!sockets.ok()) return address;
  for (const int fd : sockets->fds) close(fd);
  return sockets->address;
}

SecurityOptions SecurityOf(const std::string& certs, const std::string& name, bool insecure) {
  SecurityOptions options;
  options.insecure = insecure;
  if (certs.empty()) return options;
  const std::string path = absl::StrCat(certs, "/", name);
  options.cert = path + ".crt";
  options.key = path + ".key";
  options.ca = certs + "/ca.crt";
  return options;
}

Role LocalCluster::PartOf(const Task& task) const {
  return task.role == Role::kWorker && task.index == 0 && nodes() ? Role::kCoordinator : task.role;
}

absl::Status LocalCluster::Start() {
  // Our parent may have ignored SIGCHLD, which we would inherit: the kernel would not keep the exit
  // status of a daemon then.
  signal(SIGCHLD, SIG_DFL);
  if (!hosts_.has_value()) {
    const char* const temporary = getenv("TMPDIR");
    const bool set = temporary != nullptr && *temporary != '\0';
    ASSIGN_OR_RETURN(sockets_, SocketDir::Make(set ? AbsolutePath(temporary) : "/tmp"));
  }
  const auto address = [&](const Task& task) {
    if (hosts_.has_value()) return hosts_->AddressOf(task);
    return absl::StrCat("unix:", sockets_->path(), "/", FileName(task));
  };
  const Task leader = LeaderOf(options_);
  coordinator_address_ = address(leader);
  nlohmann::json cluster;
  if (!nodes()) {
    cluster["chief"].push_back(coordinator_address_);
    processes_.push_back({leader});
  }
  for (uint32_t i = 0; i < options_.ps; ++i) {
    cluster["ps"].push_back(address(Task{Role::kPs, i}));
    processes_.push_back({Task{Role::kPs, i}});
  }
  for (uint32_t i = 0; i < options_.workers; ++i) {
    cluster["worker"].push_back(address(Task{Role::kWorker, i}));
    processes_.push_back({Task{Role::kWorker, i}});
  }
  if (options_.evaluator) processes_.push_back({Task{Role::kEvaluator, 0}});
  tf_config_ = TextOf(nlohmann::json({{"cluster", cluster}}));
  oom_kills_ = OomKills(options_.vmstat);
  for (Process& process : processes_) RETURN_IF_ERROR(Launch(process));
  return absl::OkStatus();
}

std::vector<std::string> LocalCluster::Arguments(const Process& process) const {
  const bool computes = process.task.role == Role::kWorker || process.task.role == Role::kEvaluator;
  const std::string program = RoleName(computes ? Role::kWorker : process.task.role);
  std::vector<std::string> arguments = {
      "paracord-" + program, "--task",      process.task.ToString(), "--dir",
      options_.dir,          "--log-level", options_.log_level};
  if (!options_.memory_limit.empty()) {
    arguments.insert(arguments.end(), {"--memory-limit", options_.memory_limit});
  }
  if (!options_.trace_dir.empty()) {
    const std::string name = absl::StrCat(FileName(process.task), "-", process.starts);
    arguments.insert(arguments.end(), {"--trace", options_.trace_dir + "/" + name});
  }
  const std::vector<std::string> security =
      SecurityArguments(SecurityOf(options_.certs, FileName(process.task), options_.insecure));
  arguments.insert(arguments.end(), security.begin(), security.end());
  if (PartOf(process.task) == Role::kCoordinator) {
    arguments.insert(arguments.end(), {"--job", options_.job_file});
    for (const std::string& file : options_.accept_changes) {
      arguments.insert(arguments.end(), {"--accept-change", file});
    }
    if (!options_.http.empty()) arguments.insert(arguments.end(), {"--http", options_.http});
  }
  // The user who starts the cluster has chosen the job and its program.
  if (computes) {
    arguments.insert(arguments.end(), {"--device", options_.device, "--allow-programs"});
    if (options_.threads.has_value()) {
      arguments.insert(arguments.end(), {"--threads", absl::StrCat(*options_.threads)});
    }
  }
  return arguments;
}

// Divides this machine's processors among the tasks of one role.
uint32_t LocalCluster::Threads(const Task& task) const {
  const uint32_t sharing = task.role == Role::kPs ? options_.ps : options_.workers;
  return std::max(1u, std::max(1u, std::thread::hardware_concurrency()) / sharing);
}

std::string LocalCluster::LogPath(const Task& task) const {
  return absl::StrCat(options_.dir, "/logs/", FileName(task), ".log");
}

// Returns the log of a task, or our own standard error if the log's directory or disk is gone.
int LocalCluster::OpenLog(const Task& task) const {
  std::error_code ignored;
  std::filesystem::create_directories(options_.dir + "/logs", ignored);
  const int log = open(LogPath(task).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  return log >= 0 ? log : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
}

absl::StatusOr<pid_t> LocalCluster::Spawned(Process& process) {
  const Task& task = process.task;
  SpawnOptions spawn;
  spawn.command = Arguments(process);
  spawn.environment = {"TF_CONFIG=" + tf_config_};
  spawn.death_signal = SIGTERM;  // the daemon drains
  if (hosts_.has_value()) {
    spawn.command = hosts_->Command(task, std::exchange(spawn.environment, {}), spawn.command);
    if (process.remote == nullptr) {
      process.remote = std::make_unique<SshDaemon>(task.ToString(), LogPath(task), std::cerr);
    }
    return process.remote->Start(std::move(spawn));
  }
  spawn.command[0] = options_.bin_dir + "/" + spawn.command[0];
  const bool told = options_.threads.has_value() && task.role != Role::kPs;
  if (task.role != Role::kCoordinator && !told) {
    spawn.command.insert(spawn.command.end(), {"--threads", absl::StrCat(Threads(task))});
  }
  if (nodes() && task.role == Role::kWorker) {  // whatever device computes
    spawn.command.insert(spawn.command.end(), {"--ps-threads", absl::StrCat(Threads(task))});
  }
  // Spinning threads of several workers would fight for the same cores.
  if (getenv("OMP_WAIT_POLICY") == nullptr) spawn.environment.push_back("OMP_WAIT_POLICY=passive");
  spawn.output = OpenLog(task);
  absl::StatusOr<pid_t> pid = Spawn(spawn);
  close(spawn.output);
  return pid;
}

absl::Status LocalCluster::Launch(Process& process) {
  ++process.starts;
  process.furthest = furthest_;
  process.started_at = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(process.pid, Spawned(process));
  return absl::OkStatus();
}

// After a lost ssh connection, the old daemon may still hold the port when the next one starts,
// which then exits with kInUse: another restart may help.
bool LocalCluster::MayRestart(const Process& process, int code) const {
  const bool in_use = code == static_cast<int>(ExitCode::kInUse);
  const bool leaving = hosts_.has_value() && process.starts > 1 && in_use;
  return (code >= kRestartMayHelp || leaving) && process.restarts < kRestartsMax;
}

LocalCluster::Death LocalCluster::AfterDeath(Process& process, int code, std::string how) {
  Death death{process.task.ToString(), std::move(how), code, "", LogPath(process.task)};
  const Role role = PartOf(process.task);
  const auto lived = std::chrono::steady_clock::now() - process.started_at;
  if (furthest_ > process.furthest && lived >= std::chrono::milliseconds(options_.sound_ms)) {
    process.restarts = 0;
  }
  if (role == Role::kCoordinator && code < kRestartMayHelp) coordinator_exit_ = code;
  death.ends_job = coordinator_exit_ == code || (given_up_.has_value() && given_up_->code == code);
  if (draining_ || coordinator_exit_.has_value()) return death;
  if (MayRestart(process, code)) {
    const auto first = hosts_.has_value() ? kFirstRemotePause : kFirstPause;
    const auto pause = process.restarts == 0 ? std::chrono::milliseconds(0)
                                             : first * (1 << (process.restarts - 1));
    ++process.restarts;
    process.restart_at = std::chrono::steady_clock::now() + pause;
    death.then = pause.count() == 0 ? "and was restarted"
                                    : absl::StrCat("and is restarted in ", pause.count(), " ms");
    return death;
  }
  const bool needed = role == Role::kPs || role == Role::kCoordinator ||
                      (role == Role::kWorker && (nodes() || !Running(Role::kWorker)));
  death.ends_job |= needed && code < kRestartMayHelp;
  if (code != 0 && needed && !given_up_.has_value()) given_up_ = death;
  return death;
}

// The kernel counts kills for memory without names: a daemon that dies just then was killed.
std::string LocalCluster::HowEnded(const Process& process, int status) const {
  if (WIFEXITED(status)) {
    const bool ssh = hosts_.has_value() && WEXITSTATUS(status) == kSshFailed;
    return absl::StrCat("exit code ", WEXITSTATUS(status),
                        ssh ? ": ssh did not reach, or lost, " + hosts_->HostOf(process.task) : "");
  }
  constexpr std::chrono::seconds kSoon(3);  // large memory takes a while to be given back
  const bool for_memory =
      WTERMSIG(status) == SIGKILL && oom_killed_at_ + kSoon > std::chrono::steady_clock::now();
  return absl::StrCat("signal ", WTERMSIG(status),
                      for_memory ? ": the kernel was killing processes for memory" : "");
}

std::vector<LocalCluster::Death> LocalCluster::Reap() {
  const uint64_t oom_kills = OomKills(options_.vmstat);
  if (std::exchange(oom_kills_, oom_kills) < oom_kills) {
    oom_killed_at_ = std::chrono::steady_clock::now();
  }
  std::vector<Death> deaths;
  for (Process& process : processes_) {
    if (process.remote != nullptr) process.remote->Read();
    int status = 0;
    if (process.pid != 0 && waitpid(process.pid, &status, WNOHANG) == process.pid) {
      process.pid = 0;
      if (process.remote != nullptr) process.remote->Close();
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      deaths.push_back(AfterDeath(process, code, HowEnded(process, status)));
    }
    if (std::chrono::steady_clock::now() < process.restart_at.value_or(Time::max())) continue;
    process.restart_at.reset();
    const absl::Status started = Launch(process);
    if (started.ok()) continue;
    deaths.push_back(
        AfterDeath(process, static_cast<int>(ExitCode::kPeerLost), std::string(started.message())));
  }
  return deaths;
}

void LocalCluster::Signal(std::optional<Role> role, int signal) {
  for (const Process& process : processes_) {
    if (process.pid == 0 || (role.has_value() && PartOf(process.task) != *role)) continue;
    if (process.remote != nullptr) {
      process.remote->Tell(signal);
    } else {
      kill(process.pid, signal);
    }
  }
}

// Ends the ssh processes whose hosts do not answer.
void LocalCluster::EndConnections() {
  for (const Process& process : processes_) {
    if (process.pid != 0 && process.remote != nullptr) kill(process.pid, SIGKILL);
  }
}

bool LocalCluster::Running(std::optional<Role> role) const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const Process& process) {
    return (process.pid != 0 || process.restart_at.has_value()) &&
           (!role.has_value() || PartOf(process.task) == *role);
  });
}

std::string LocalCluster::Tasks(std::optional<Role> role) const {
  std::string tasks;
  for (const Process& process : processes_) {
    if (process.pid == 0 || (role.has_value() && PartOf(process.task) != *role)) continue;
    absl::StrAppend(&tasks, tasks.empty() ? "" : ", ", process.task.ToString());
  }
  return tasks;
}

LocalCluster::Waited LocalCluster::WaitFor(std::optional<Role> role, int64_t wait_ms,
                                           const GoesOn& goes_on) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  while (true) {
    Reap();
    if (!Running(role)) return Waited::kGone;
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= left.zero()) return Waited::kTimeIsOver;
    const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
    if (goes_on != nullptr && !goes_on(Tasks(role), left_ms)) return Waited::kStopped;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until a child ends
  }
}

void LocalCluster::BeginDraining() {
  draining_ = true;
  for (Process& process : processes_) process.restart_at.reset();
}

void LocalCluster::Drain(int64_t group_ms, int signal, const GoesOn& goes_on) {
  BeginDraining();
  constexpr int64_t kAloneMs = 2000;
  if (!Running(Role::kCoordinator)) group_ms = std::min(group_ms, kAloneMs);
  // A node that left first would take its partitions away from pushes under way.
  if (nodes()) {
    Signal(std::nullopt, signal);
    if (WaitFor(std::nullopt, group_ms, goes_on) == Waited::kStopped) WaitAll(0);
    return;
  }
  for (const Role role : {Role::kWorker, Role::kEvaluator, Role::kCoordinator, Role::kPs}) {
    Signal(role, signal);
    if (WaitFor(role, group_ms, goes_on) == Waited::kStopped) return WaitAll(0);
  }
}

void LocalCluster::WaitAll(int64_t wait_ms) {
  BeginDraining();
  if (WaitFor(std::nullopt, wait_ms) == Waited::kGone) return;
  if (wait_ms > 0) {  // daemons that the coordinator could not tell
    Signal(std::nullopt, SIGTERM);
    if (WaitFor(std::nullopt, wait_ms) == Waited::kGone) return;
  }
  Signal(std::nullopt, SIGKILL);
  if (WaitFor(std::nullopt, 1000) == Waited::kGone) return;
  EndConnections();
  WaitFor(std::nullopt, 1000);
}

}  // namespace paracord
