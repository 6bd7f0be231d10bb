// A daemon on another host, behind a local ssh process. Its output goes, line by line, to its log
// file and, prefixed with its task ("ps:0 | "), to `out`; signals travel through its standard input
// (cli/ssh_hosts.h). Never waits for the daemon. Used in one thread.
#pragma once

#include <sys/types.h>

#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "common/spawn.h"

namespace paracord {

class SshDaemon {
 public:
  SshDaemon(std::string task, std::string log, std::ostream& out);
  ~SshDaemon();  // closes the input, which the daemon takes as SIGTERM
  SshDaemon(const SshDaemon&) = delete;
  SshDaemon& operator=(const SshDaemon&) = delete;

  // Starts ssh, with new pipes for its output and input. Any ssh that ran before must have ended.
  absl::StatusOr<pid_t> Start(SpawnOptions spawn);
  // Passes a signal on to the daemon, but SIGTERM in place of SIGINT.
  void Tell(int signal);
  // Writes the whole lines that have come since the last call to the log and `out`.
  void Read();
  // Writes the remaining output to the log and `out`, even a line without an end. Called after ssh
  // has ended; does not wait for other processes that still hold ssh's output.
  void Close();

 private:
  void Show(const std::string& line);

  const std::string task_;
  const std::string log_;
  std::ostream& out_;
  int from_ = -1;
  int to_ = -1;
  std::string pending_;  // the beginning of a line whose end has not come yet
};

}  // namespace paracord
