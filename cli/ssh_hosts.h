// The hosts of a cluster that is reached by ssh: the host of each task, the address where the task
// listens, and the command that runs it. Pure: starts nothing, dials nobody.
//
// On the host a shell starts the daemon and reads ssh's input. If a line has the name of a signal,
// the shell sends the signal to the daemon. At the end of the input (the connection is lost, or the
// caller dead) it sends SIGTERM. The shell exits with the daemon's exit code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "config/cluster.h"

namespace paracord {

// Returns an argument for a shell, quoted where necessary.
std::string ShellWord(const std::string& text);

struct SshOptions {
  std::vector<std::string> hosts;    // "name" or "user@name"; daemons dial "name"
  std::vector<std::string> command;  // ssh and its flags; the first word is a path
  std::string bin_dir;               // where the programs are on each host
  int64_t port = 7400;               // the coordinator's port; each other task has a port above
};

// INVALID_ARGUMENT: `hosts` is empty, or an entry is no host.
absl::Status CheckHosts(const std::vector<std::string>& hosts);

// Places the coordinator on the first host. Deals out the ps, the workers and the evaluator, in
// this order, to the hosts in turn, also from the first host on.
class SshHosts {
 public:
  SshHosts(SshOptions options, uint32_t ps, uint32_t workers);

  const std::string& HostOf(const Task& task) const;
  std::string AddressOf(const Task& task) const;  // "host:port"
  // Returns how many tasks of the role of `task` run on the host of `task`.
  uint32_t Sharing(const Task& task) const;
  // Returns the whole ssh command that runs `daemon`, a program's name and its arguments, with
  // `variables` ("NAME=value") in the environment. Adds --threads, the host's processors divided by
  // Sharing(task), unless `task` is the coordinator or `daemon` has --threads; and, without ps, as
  // large a --ps-threads to workers.
  std::vector<std::string> Command(const Task& task, const std::vector<std::string>& variables,
                                   const std::vector<std::string>& daemon) const;

 private:
  uint32_t Position(const Task& task) const;

  const SshOptions options_;
  const uint32_t ps_;
  const uint32_t workers_;
};

}  // namespace paracord
