// A daemon on another host, as its ssh process here: what it prints goes, line by line, to its log
// file and, behind its task ("ps:0 | "), to an output of ours; what it is to be told goes through
// its standard input (cli/ssh_hosts.h). Never blocks. Used in one thread.
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
  ~SshDaemon();  // closes what is open, which the daemon takes as SIGTERM
  SshDaemon(const SshDaemon&) = delete;
  SshDaemon& operator=(const SshDaemon&) = delete;

  // Starts ssh with output and input of its own. What ran before has ended.
  absl::StatusOr<pid_t> Start(SpawnOptions spawn);
  // Passes a signal on to the daemon, SIGTERM in place of SIGINT.
  void Tell(int signal);
  // Shows the whole lines that have come.
  void Read();
  // Shows the rest, a line without an end too, after ssh has ended: who else still holds its output
  // is not waited for.
  void Close();

 private:
  void Show(const std::string& line);

  const std::string task_;
  const std::string log_;
  std::ostream& out_;
  int from_ = -1;
  int to_ = -1;
  std::string pending_;  // a line that has no end yet
};

}  // namespace paracord
