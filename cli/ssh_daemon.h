// A daemon on another host, behind a local ssh process. The daemon's output goes, line by line, to
// the log file `log` and, prefixed with its task ("ps:0 | "), to `out`. Signals travel through
// ssh's standard input (cli/ssh_hosts.h). Never waits for the daemon. Used in one thread.
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
  ~SshDaemon();  // closes ssh's input: the daemon gets SIGTERM
  SshDaemon(const SshDaemon&) = delete;
  SshDaemon& operator=(const SshDaemon&) = delete;

  // Starts ssh by `spawn`, with new pipes. An ssh that was started before has ended.
  absl::StatusOr<pid_t> Start(SpawnOptions spawn);
  // Passes a signal on to the daemon; passes SIGTERM in place of SIGINT.
  void Tell(int signal);
  // Writes the lines that are complete by now to the log and `out`.
  void Read();
  // Writes the remaining output to the log and `out`, also an incomplete last line. Called after
  // ssh has ended. Does not wait for other processes that have inherited ssh's output.
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
