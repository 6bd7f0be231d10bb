// paracord run: becomes the daemon whose task TF_CONFIG names, so that one command serves all
// replicas of an operator. Where the cluster has no chief, worker 0 is one as well, as TensorFlow
// has it: its address is the coordinator's.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/own_task.h"
#include "common/spawn.h"
#include "common/status_text.h"
#include "config/cluster.h"
#include "config/flags.h"
#include "net/grpc/security_flags.h"

namespace paracord {

OwnTask OwnTaskOf(const Cluster& cluster, const std::string& job, const std::string& dir,
                  const std::string& device) {
  const Task task = *cluster.task;
  const auto first = cluster.workers.find(0);
  const bool no_chief = cluster.coordinator.empty() && first != cluster.workers.end();
  const std::string coordinator = no_chief ? first->second : cluster.coordinator;
  OwnTask own;
  switch (task.role) {
    case Role::kPs:
      own.becomes = {"paracord-ps", "--dir", dir};
      return own;
    case Role::kCoordinator:
      own.becomes = {"paracord-coordinator", "--job", job, "--dir", dir};
      return own;
    case Role::kWorker:
    case Role::kEvaluator:
      break;
  }
  std::vector<std::string> worker = {"paracord-worker", "--dir", dir, "--device", device};
  if (!coordinator.empty()) worker.insert(worker.end(), {"--coordinator", coordinator});
  if (!no_chief || task.role != Role::kWorker || task.index != 0) {
    own.becomes = worker;
    return own;
  }
  own.beside = worker;
  own.becomes = {"paracord-coordinator", "--task", "chief", "--job", job, "--dir", dir, "--listen",
                 first->second};
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

}  // namespace

int RunRun(Args args, std::ostream& out, std::ostream& err) {
  std::string job, dir, device = "auto";
  Flags flags("paracord run",
              "Becomes the daemon of the task in TF_CONFIG: coordinator, ps, worker or evaluator.\n"
              "Where the cluster has no chief, worker 0 is the coordinator as well.");
  flags.String("job", "FILE", "the job, for the coordinator", &job);
  flags.String("dir", "DIR", "the job's directory, shared by all", &dir);
  flags.String("device", "DEVICE", "of a worker: auto, cpu, cuda:N, cuda:all or pjrt:PATH",
               &device);
  SecurityOptions security;
  AddSecurityFlags(flags, security);
  const auto code = flags.ParseOrExit(args, "paracord run", out, err);
  if (code.has_value()) return *code;
  const auto refuse = [&](const std::string& why) {
    return Fail("run", why, ExitCode::kConfiguration, err);
  };
  if (job.empty() || dir.empty()) return refuse("needs --job FILE and --dir DIR");
  const absl::StatusOr<Cluster> cluster = FromEnvironment();
  if (!cluster.ok()) return refuse("TF_CONFIG: " + Text(cluster.status()));
  OwnTask own = OwnTaskOf(*cluster, job, dir, device);
  for (std::vector<std::string>* const daemon : {&own.becomes, &own.beside}) {
    if (daemon->empty()) continue;
    const std::vector<std::string> more = SecurityArguments(security);
    daemon->insert(daemon->end(), more.begin(), more.end());
  }
  std::error_code error;
  const std::string bin =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
  if (error) return refuse("/proc/self/exe: " + error.message());
  // The child ends when this process does, which is the coordinator by then.
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
