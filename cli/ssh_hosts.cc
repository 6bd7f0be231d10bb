#include "cli/ssh_hosts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

// Returns "user@name" without the user, which peers dial.
std::string NameOf(const std::string& host) { return host.substr(host.find('@') + 1); }

// Counts the tasks 0..count-1, dealt out in turn from host `first` on, that are on the host at
// `position`.
uint32_t SamePlace(uint32_t first, uint32_t count, uint32_t position, size_t hosts) {
  uint32_t same = 0;
  for (uint32_t i = 0; i < count; ++i) same += (first + i) % hosts == position % hosts ? 1 : 0;
  return same;
}

}  // namespace

std::string ShellWord(const std::string& text) {
  const bool plain =
      !text.empty() && text.find_first_of(" \t\n'\"\\$`&|;<>()*?[]#~!{}") == std::string::npos;
  if (plain) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

absl::Status CheckHosts(const std::vector<std::string>& hosts) {
  if (hosts.empty()) return absl::InvalidArgumentError("--hosts: needs at least one host");
  for (const std::string& host : hosts) {
    // ssh would read such a host as a flag.
    if (host.starts_with("-")) {
      return absl::InvalidArgumentError(absl::StrCat("--hosts: ", host, " is no host"));
    }
    RETURN_IF_ERROR(CheckAddress(NameOf(host) + ":1", absl::StrCat("--hosts: ", host)));
  }
  return absl::OkStatus();
}

SshHosts::SshHosts(SshOptions options, uint32_t ps, uint32_t workers)
    : options_(std::move(options)), ps_(ps), workers_(workers) {}

uint32_t SshHosts::Position(const Task& task) const {
  switch (task.role) {
    case Role::kCoordinator:
      return 0;
    case Role::kPs:
      return task.index;
    case Role::kWorker:
      return ps_ + task.index;
    case Role::kEvaluator:
      break;
  }
  return ps_ + workers_ + task.index;
}

const std::string& SshHosts::HostOf(const Task& task) const {
  return options_.hosts[Position(task) % options_.hosts.size()];
}

std::string SshHosts::AddressOf(const Task& task) const {
  const uint32_t after = task.role == Role::kCoordinator ? 0 : 1;
  return absl::StrCat(NameOf(HostOf(task)), ":", options_.port + after + Position(task));
}

uint32_t SshHosts::Sharing(const Task& task) const {
  const size_t hosts = options_.hosts.size();
  if (task.role == Role::kPs) return SamePlace(0, ps_, Position(task), hosts);
  if (task.role == Role::kWorker) return SamePlace(ps_, workers_, Position(task), hosts);
  return 1;
}

std::vector<std::string> SshHosts::Command(const Task& task,
                                           const std::vector<std::string>& variables,
                                           const std::vector<std::string>& daemon) const {
  std::string run;
  for (const std::string& variable : variables) {
    const size_t equals = variable.find('=');
    absl::StrAppend(&run, variable.substr(0, equals), "=", ShellWord(variable.substr(equals + 1)),
                    " ");
  }
  run += ShellWord(options_.bin_dir + "/" + daemon[0]);
  for (size_t i = 1; i < daemon.size(); ++i) absl::StrAppend(&run, " ", ShellWord(daemon[i]));
  if (task.role != Role::kCoordinator && std::ranges::find(daemon, "--threads") == daemon.end()) {
    run += " --threads $((n > 0 ? n : 1))";
  }
  if (ps_ == 0 && task.role == Role::kWorker) run += " --ps-threads $((n > 0 ? n : 1))";
  const std::string script = absl::StrCat(
      "n=$(($(nproc) / ", Sharing(task), ")); exec 3<&0; ", run, " </dev/null 3<&- & daemon=$!; ",
      "{ while read -r signal; do kill -s \"$signal\" $daemon; done; kill -s TERM $daemon; } ",
      "<&3 >/dev/null 2>&1 & reader=$!; exec 3<&-; ",
      "wait $daemon; code=$?; kill $reader 2>/dev/null; exit $code");
  std::vector<std::string> command = options_.command;
  command.push_back(HostOf(task));
  // The login shell may not be POSIX: it only starts one that is.
  command.push_back("exec /bin/sh -c " + ShellWord(script));
  return command;
}

}  // namespace paracord
