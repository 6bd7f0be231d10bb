// What `paracord train` shows at its end: the summary, or why there is none, what is lost, and how
// to go on. Reads the job's directory after the cluster's processes have left; changes nothing.
// Used in main's thread.
#pragma once

#include <string>

#include "cli/local_cluster.h"
#include "cli/progress.h"
#include "common/files.h"

namespace paracord {

struct TrainEnd {
  std::string dir;                // absolute path of the job's directory
  std::string summary_before;     // text of an earlier run's summary.json
  std::string to_go_on;           // the command that goes on with the job
  bool json = false;              // the end is printed as JSON
  std::string command = "train";  // the command's name, for texts that people read
  std::string log = "";           // path of the coordinator's log
};

// Shows the summary, or why the coordinator left none; returns `coordinator_exit`.
int ShowEnd(Files& files, const TrainEnd& end, int coordinator_exit, Progress& progress);

// Returns the text that is shown after a drain: "stopped (why); to go on from step-40-g1-r3:
// command". `first` is put before "to go on", such as "once that is mended, ".
std::string StoppedText(Files& files, const TrainEnd& end, const std::string& first = "");

// Says which daemon was given up, and how it ended. Unless a signal killed the daemon, adds the
// last message in its log.
std::string GivenUpText(Files& files, const LocalCluster::Death& lost);

// Returns the last message in a daemon's log, at most its last kLastLinesMax lines: it says why the
// daemon left. "" if the log cannot be read.
inline constexpr size_t kLastLinesMax = 20;
std::string LastWords(Files& files, const std::string& log);

}  // namespace paracord
