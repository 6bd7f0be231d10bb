// paracord run: becomes the daemon of the task in TF_CONFIG, so that one command serves all
// replicas of an operator. If the cluster has no chief, worker 0 is also the coordinator, like in
// TensorFlow, at the same address. Without ps, a worker is paracord-worker alone.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/own_task.h"
#include "common/spawn.h"
#include "common/status_text.h"
#include "config/cluster.h"
#include "config/flags.h"
#include "config/job_settings.h"
#include "config/nodes.h"
#include "daemon/security_flags.h"

namespace paracord {
namespace {

using Words = std::vector<std::string>;

void Add(Words& words, const std::string& flag, const std::string& value) {
  if (!value.empty()) words.insert(words.end(), {flag, value});
}

// Adds the flags of every daemon, and the flags of daemons that compute.
void AddShared(Words& words, const OwnTaskFlags& flags, bool computes) {
  Add(words, "--log-level", flags.log_level);
  Add(words, "--log-format", flags.log_format);
  Add(words, "--memory-limit", flags.memory_limit);
  if (computes && flags.threads.has_value()) {
    Add(words, "--threads", absl::StrCat(*flags.threads));
  }
}

// Adds the flags that describe a coordinator's job.
void AddJob(Words& words, const OwnTaskFlags& flags) {
  Add(words, "--job", flags.job);
  for (const std::string& setting : flags.set) Add(words, "--set", setting);
  for (const std::string& file : flags.accept_changes) Add(words, "--accept-change", file);
  if (flags.keep_job) words.push_back("--keep-job");
}

Words CoordinatorOf(const OwnTaskFlags& flags) {
  Words words = {"paracord-coordinator", "--dir", flags.dir};
  AddJob(words, flags);
  AddShared(words, flags, /*computes=*/false);
  return words;
}

Words PsOf(const OwnTaskFlags& flags) {
  Words words = {"paracord-ps", "--dir", flags.dir};
  AddShared(words, flags, /*computes=*/true);
  if (flags.stay) words.push_back("--stay");
  return words;
}

Words WorkerOf(const OwnTaskFlags& flags, const std::string& coordinator, bool trains) {
  Words words = {"paracord-worker", "--dir", flags.dir, "--device", flags.device};
  Add(words, "--coordinator", coordinator);
  AddShared(words, flags, /*computes=*/true);
  if (flags.allow_programs) words.push_back("--allow-programs");
  if (flags.stay && trains) words.push_back("--stay");
  return words;
}

}  // namespace

OwnTask OwnTaskOf(const Cluster& cluster, const OwnTaskFlags& flags) {
  const Task task = *cluster.task;
  const auto first = cluster.workers.find(0);
  const bool no_chief = cluster.coordinator.empty() && first != cluster.workers.end();
  const std::string coordinator = no_chief ? first->second : cluster.coordinator;
  OwnTask own;
  switch (task.role) {
    case Role::kPs:
      own.becomes = PsOf(flags);
      break;
    case Role::kCoordinator:
      own.becomes = CoordinatorOf(flags);
      break;
    case Role::kWorker:
    case Role::kEvaluator:
      if (IsNode(cluster, task)) {
        own.becomes = WorkerOf(flags, /*coordinator=*/"", /*trains=*/true);
        AddJob(own.becomes, flags);
        break;
      }
      own.becomes = WorkerOf(flags, coordinator, task.role == Role::kWorker);
      if (!no_chief || task.role != Role::kWorker || task.index != 0) break;
      own.beside = std::move(own.becomes);
      own.becomes = CoordinatorOf(flags);
      own.becomes.insert(own.becomes.end(), {"--task", "chief", "--listen", first->second});
  }
  Add(own.becomes, "--http", flags.http);
  return own;
}

namespace {

absl::StatusOr<Cluster> FromEnvironment() {
  const char* const config = std::getenv("TF_CONFIG");
  absl::StatusOr<std::optional<Cluster>> cluster = ParseTfConfig(config == nullptr ? "" : config);
  if (!cluster.ok()) return cluster.status();
  if (!cluster->has_value() || !(*cluster)->task.has_value()) {
    return absl::InvalidArgumentError("does not say which task this is: an operator sets it");
  }
  return **std::move(cluster);
}

// Declares the flags with targets in `own`, which must outlive `flags`.
void AddFlags(Flags& flags, OwnTaskFlags& own) {
  flags.String("job", "FILE", "the job, for the coordinator", &own.job);
  flags.Strings("set", "KEY=VALUE", kSetHelp, &own.set);
  flags.Strings("accept-change", "FILE", kAcceptChangeHelp, &own.accept_changes);
  flags.String("dir", "DIR", "the job's directory, shared by all", &own.dir);
  flags.String("device", "DEVICE", "of a worker: auto, cpu, cuda:N, cuda:all or pjrt:PATH",
               &own.device);
  flags.Integer("threads", "N", "of a worker or a ps: threads that compute", 1, 1024, &own.threads);
  flags.Switch("allow-programs",
               "of a worker: run the command of a job whose model is a program, and load what a "
               "plug-in has compiled: code of whoever writes the job",
               &own.allow_programs);
  flags.Switch("stay", "of a worker or a ps: wait for another job when this one is done",
               &own.stay);
  flags.Switch("keep-job",
               "of the coordinator: go on with the job in --dir where the one given has keys that "
               "cannot change",
               &own.keep_job);
  flags.String("http", "ADDRESS",
               "show metrics, health and the coordinator's page there; where worker 0 is the "
               "coordinator as well, the coordinator alone does",
               &own.http);
  flags.String("log-level", "LEVEL", "debug, info, warn, error or off", &own.log_level);
  flags.String("log-format", "FORMAT", "text, json or auto", &own.log_format);
  flags.String("memory-limit", "BYTES", "what each process may hold in memory, such as 2GiB",
               &own.memory_limit);
}

}  // namespace

int RunRun(Args args, std::ostream& out, std::ostream& err) {
  OwnTaskFlags wanted;
  Flags flags("paracord run",
              "Becomes the daemon of the task in TF_CONFIG: coordinator, ps, worker or evaluator.\n"
              "Where the cluster has no chief, worker 0 is the coordinator as well.");
  AddFlags(flags, wanted);
  SecurityOptions security;
  AddSecurityFlags(flags, security);
  const auto code = flags.ParseOrExit(args, "paracord run", out, err);
  if (code.has_value()) return *code;
  const auto refuse = [&](const std::string& why) {
    return Fail("run", why, ExitCode::kConfiguration, err);
  };
  if (wanted.job.empty() || wanted.dir.empty()) {
    return refuse("needs --job FILE and --dir DIR");
  }
  const absl::StatusOr<Cluster> cluster = FromEnvironment();
  if (!cluster.ok()) return refuse("TF_CONFIG: " + Text(cluster.status()));
  OwnTask own = OwnTaskOf(*cluster, wanted);
  for (std::vector<std::string>* const daemon : {&own.becomes, &own.beside}) {
    if (daemon->empty()) continue;
    const std::vector<std::string> more = SecurityArguments(security);
    daemon->insert(daemon->end(), more.begin(), more.end());
  }
  std::error_code error;
  const std::string bin =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
  if (error) return refuse("/proc/self/exe: " + error.message());
  // The child ends with this process, which is the coordinator by then.
  if (!own.beside.empty()) {
    own.beside[0] = absl::StrCat(bin, "/", own.beside[0]);
    SpawnOptions options;
    options.command = own.beside;
    options.output = STDERR_FILENO;
    const absl::StatusOr<pid_t> worker = Spawn(options);
    if (!worker.ok()) return refuse(Text(worker.status()));
  }
  const std::string program = absl::StrCat(bin, "/", own.becomes[0]);
  std::vector<char*> words;
  for (std::string& word : own.becomes) words.push_back(word.data());
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  return refuse(absl::StrCat(program, ": ", std::strerror(errno)));
}

}  // namespace paracord
