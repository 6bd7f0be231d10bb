// A daemon on another host, behind a local ssh process. Its output goes, line by line, to its log
// file and, prefixed with its task ("ps:0 | "), to a stream of ours; signals travel through its
// standard input (cli/ssh_hosts.h). Never blocks. Used in one thread.
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

  // Starts ssh with a new output and input. Any ssh that ran before must have ended.
  absl::StatusOr<pid_t> Start(SpawnOptions spawn);
  // Passes a signal on to the daemon, SIGTERM in place of SIGINT.
  void Tell(int signal);
  // Shows the whole lines that have come since the last call.
  void Read();
  // Shows the remaining output, even a line without an end. Called after ssh has ended; does not
  // wait for other processes that still hold ssh's output.
  void Close();

 private:
  void Show(const std::string& line);

  const std::string task_;
  const std::string log_;
  std::ostream& out_;
  int from_ = -1;
  int to_ = -1;
  std::string pending_;  // a line without its end so far
};

}  // namespace paracord
