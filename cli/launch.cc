// paracord launch: a cluster on other hosts, which share the job's directory, by ssh.
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands.h"
#include "cli/own_folder.h"
#include "cli/ssh_hosts.h"
#include "cli/terminal.h"
#include "cli/train.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "config/flags.h"

namespace paracord {
namespace {

struct LaunchFlags {
  TrainFlags train;
  std::string hosts;
  // Nobody is there to type a password, and ssh must notice a dead connection.
  std::string ssh = "ssh -o BatchMode=yes -o ServerAliveInterval=10";
  std::string bin;
  int64_t port = 7400;
};

// Returns the path of a program that PATH has.
absl::StatusOr<std::string> PathOf(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* const path = getenv("PATH");
  const std::vector<std::string> folders = absl::StrSplit(path == nullptr ? "" : path, ':');
  for (const std::string& folder : folders) {
    const std::string candidate = absl::StrCat(folder, "/", program);
    if (!folder.empty() && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return absl::NotFoundError(absl::StrCat("--ssh: there is no program ", program, " in PATH"));
}

absl::StatusOr<SshOptions> OptionsOf(const LaunchFlags& own) {
  SshOptions options;
  options.hosts = absl::StrSplit(own.hosts, ',', absl::SkipEmpty());
  RETURN_IF_ERROR(CheckHosts(options.hosts));
  options.command = absl::StrSplit(own.ssh, ' ', absl::SkipEmpty());
  if (options.command.empty()) return absl::InvalidArgumentError("--ssh: must be a command");
  ASSIGN_OR_RETURN(options.command[0], PathOf(options.command[0]));
  options.bin_dir = own.bin;
  if (own.bin.empty()) {
    ASSIGN_OR_RETURN(options.bin_dir, OwnFolder());
  }
  options.port = own.port;
  return options;
}

}  // namespace

int RunLaunch(Args args) {
  LaunchFlags own;
  own.train.command = "launch";
  Flags flags(
      "paracord launch",
      "Trains a job on hosts whose daemons it starts by ssh. The job's directory, its data "
      "and\nthe programs are in the same place on all of them, and the directory here too.");
  own.train.AddTo(flags);
  flags.String("hosts", "HOST,...", "the coordinator's host, and those that tasks are dealt to",
               &own.hosts);
  flags.String("ssh", "COMMAND", "what runs a command on a host", &own.ssh);
  flags.String("bin", "DIR", "where the programs are on each host; default: where this one is",
               &own.bin);
  flags.Integer("port", "N", "the coordinator's port; the tasks have those after it", 1, 65000,
                &own.port);
  flags.String("certs", "DIR", "use TLS with TASK.crt, TASK.key and ca.crt in this folder",
               &own.train.certs);
  flags.Switch("json", "one JSON object a line instead of text; the logs go to standard error",
               &own.train.json);
  const auto refused = flags.ParseOrExit(args, "paracord launch", TerminalOut(), TerminalErr());
  if (refused.has_value()) return *refused;
  absl::StatusOr<SshOptions> options = OptionsOf(own);
  if (!options.ok()) {
    return Fail("launch", options.status().message(), ExitCode::kConfiguration, TerminalErr());
  }
  const LaunchFlags defaults;
  own.train.on_hosts =
      absl::StrCat(" --hosts ", ShellWord(own.hosts), own.ssh == defaults.ssh ? "" : " --ssh ",
                   own.ssh == defaults.ssh ? "" : ShellWord(own.ssh),
                   own.bin.empty() ? "" : " --bin " + ShellWord(own.bin),
                   own.port == defaults.port ? "" : absl::StrCat(" --port ", own.port),
                   own.train.certs.empty() ? "" : " --certs " + ShellWord(own.train.certs));
  if (!own.train.certs.empty()) own.train.certs = AbsolutePath(own.train.certs);
  own.train.ssh = *std::move(options);
  return TrainAndReport(std::move(own.train));
}

}  // namespace paracord
