// The hosts of a cluster that are reached by ssh: which task runs where, at which address it
// listens, and the command that runs it there. Pure: starts nothing, dials nobody.
//
// What runs a daemon on its host is a shell that listens to its own standard input: a line with the
// name of a signal is passed on to the daemon, and the end of the input, which is what a lost
// connection or a dead caller comes to, is SIGTERM. The shell leaves with the daemon's exit code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "config/cluster.h"

namespace paracord {

// One argument of a shell, quoted where that is needed.
std::string ShellWord(const std::string& text);

struct SshOptions {
  std::vector<std::string> hosts;    // "name" or "user@name", as ssh and the daemons know them
  std::vector<std::string> command;  // of ssh, in front of the host; the first word is a path
  std::string bin_dir;               // where the programs are on each host
  int64_t port = 7400;               // the coordinator's; the tasks have those after it
};

// INVALID_ARGUMENT names the host that is none.
absl::Status CheckHosts(const std::vector<std::string>& hosts);

// The coordinator is on the first host; ps and behind them workers are dealt out to the hosts in
// turn, and the evaluator follows.
class SshHosts {
 public:
  SshHosts(SshOptions options, uint32_t ps, uint32_t workers);

  const std::string& HostOf(const Task& task) const;
  std::string AddressOf(const Task& task) const;  // "host:port"
  // How many tasks of its kind share its host.
  uint32_t Sharing(const Task& task) const;
  // The arguments of a daemon that divides the processors of its host among those tasks, and then
  // the whole command with `variables` ("NAME=value") in the daemon's environment.
  std::vector<std::string> Command(const Task& task, const std::vector<std::string>& variables,
                                   const std::vector<std::string>& daemon) const;

 private:
  uint32_t Position(const Task& task) const;

  const SshOptions options_;
  const uint32_t ps_;
  const uint32_t workers_;
};

}  // namespace paracord
