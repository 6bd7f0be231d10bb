// A job trained by daemons that this process starts, supervises and stops: `paracord train` on this
// machine, `paracord launch` by ssh on others. Used in main's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/ssh_hosts.h"
#include "config/flags.h"

namespace paracord {

// The most processes of each kind that --ps and --workers ask for.
inline constexpr int64_t kTrainPsMax = 64;
inline constexpr int64_t kTrainWorkersMax = 256;

struct TrainFlags {
  std::string command = "train";  // the command's name in messages
  std::string job_file;
  std::vector<std::string> set, accept_changes;
  std::optional<int64_t> ps;  // none: by the job's strategy
  int64_t workers = 1;
  std::string device = "auto";
  std::optional<int64_t> threads;  // for each worker
  std::string memory_limit;        // for each process; "": nine tenths of the machine's memory
  std::string dir;
  std::string log_level = "info";
  bool evaluator = false;
  bool fresh = false;
  bool verbose = false;  // also prints what the job asks of the ps (DIR/logs/notes.txt)
  bool json = false;
  std::string trace;
  std::string http;
  std::optional<SshOptions> ssh;  // the hosts where the daemons run
  std::string certs;              // a folder made by deploy/certs, on all hosts
  bool insecure = false;          // the daemons speak plain text
  // The flags of `paracord launch` alone, for messages that say how to go on with the job.
  std::string on_hosts;

  void AddTo(Flags& flags);  // the flags of both commands
};

// Trains until the job ends or somebody stops it; returns the exit code.
int TrainAndReport(TrainFlags flags);

}  // namespace paracord
