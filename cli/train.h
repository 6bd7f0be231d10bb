// Trains a job by daemons that this process starts, supervises and stops: `paracord train` on this
// machine, `paracord launch` by ssh on other hosts. Used in main's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/ssh_hosts.h"
#include "config/flags.h"

namespace paracord {

// The most that --ps and --workers may say.
inline constexpr int64_t kTrainPsMax = 64;
inline constexpr int64_t kTrainWorkersMax = 256;

struct TrainFlags {
  std::string command = "train";  // the command's name, for texts that people read
  std::string job_file;
  std::vector<std::string> set, accept_changes;
  std::optional<int64_t> ps;  // nullopt: the job's strategy decides
  int64_t workers = 1;
  std::string device = "auto";
  std::optional<int64_t> threads;  // for each worker
  std::string memory_limit;        // of each process; "": nine tenths of the machine's
  std::string dir;
  std::string log_level = "info";
  bool evaluator = false;
  bool fresh = false;
  bool verbose = false;  // also prints the notes in DIR/logs/notes.txt
  bool json = false;
  std::string trace;
  std::string http;
  std::optional<SshOptions> ssh;  // the hosts where the daemons run; nullopt: here
  std::string certs;              // a folder made by deploy/certs, on all hosts; "": no TLS
  bool insecure = false;          // the daemons may speak plain text to other hosts
  // The flags of `paracord launch` alone, as text for the printed command to go on with the job.
  std::string on_hosts;

  void AddTo(Flags& flags);  // adds the flags that `train` and `launch` share
};

// Trains until the job ends or somebody stops it; returns the exit code.
int TrainAndReport(TrainFlags flags);

}  // namespace paracord
