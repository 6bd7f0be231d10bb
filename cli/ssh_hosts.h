// The hosts of a cluster reached by ssh: the host of each task, the address where it listens, and
// the command that runs it. Pure: starts nothing, dials nobody.
//
// On the host a shell runs the daemon and reads standard input. A line with the name of a signal is
// passed on to the daemon. The end of the input, caused by a lost connection or a dead caller,
// means SIGTERM. The shell exits with the daemon's exit code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "config/cluster.h"

namespace paracord {

// Quotes an argument for a shell where necessary.
std::string ShellWord(const std::string& text);

struct SshOptions {
  std::vector<std::string> hosts;    // "name" or "user@name"; daemons dial "name"
  std::vector<std::string> command;  // ssh with its flags; the first word is a path
  std::string bin_dir;               // where the programs are on each host
  int64_t port = 7400;               // the coordinator's; the other tasks have the ports above
};

// INVALID_ARGUMENT: there is no entry, or one that is no host.
absl::Status CheckHosts(const std::vector<std::string>& hosts);

// Places the coordinator on the first host, then deals out the ps, the workers and the evaluator,
// in this order, to the hosts in turn.
class SshHosts {
 public:
  SshHosts(SshOptions options, uint32_t ps, uint32_t workers);

  const std::string& HostOf(const Task& task) const;
  std::string AddressOf(const Task& task) const;  // "host:port"
  // Returns how many tasks of the role of `task` run on its host.
  uint32_t Sharing(const Task& task) const;
  // Returns the whole ssh command that runs `daemon`, a program's name and its arguments, with
  // `variables` ("NAME=value") in the environment and, except for the coordinator, with --threads:
  // the host's processors divided by Sharing(task).
  std::vector<std::string> Command(const Task& task, const std::vector<std::string>& variables,
                                   const std::vector<std::string>& daemon) const;

 private:
  uint32_t Position(const Task& task) const;

  const SshOptions options_;
  const uint32_t ps_;
  const uint32_t workers_;
};

}  // namespace paracord
