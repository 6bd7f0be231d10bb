// What `paracord train` shows at its end: the summary, or why there is none, what is lost, and how
// to go on. Reads DIR after the cluster's processes have left; changes nothing. Used in main's
// thread.
#pragma once

#include <string>

#include "cli/local_cluster.h"
#include "cli/progress.h"
#include "common/files.h"

namespace paracord {

struct TrainEnd {
  std::string dir;                // absolute
  std::string summary_before;     // text of the summary.json that an earlier run left
  std::string to_go_on;           // the command that goes on with the job
  bool json = false;              // the end is printed as JSON
  std::string command = "train";  // the paracord command's name in messages
  std::string log = "";           // path of the coordinator's log
};

// Shows how a coordinator that left by itself ended, and its summary; returns `coordinator_exit`.
int ShowEnd(Files& files, const TrainEnd& end, int coordinator_exit, Progress& progress);

// Returns what is shown after a drain: "stopped (why); to go on from step-40-g1-r3: command".
// `first` is a condition before "to go on", such as "once that is mended, ".
std::string StoppedText(Files& files, const TrainEnd& end, const std::string& first = "");

// Says which daemon was given up and how it ended and, unless a signal killed it, the last words in
// its log.
std::string GivenUpText(Files& files, const LocalCluster::Death& lost);

// Returns the last message in a daemon's log with all its lines (the last kLastLinesMax), which
// says why the daemon left; "" without a log.
inline constexpr size_t kLastLinesMax = 20;
std::string LastWords(Files& files, const std::string& log);

}  // namespace paracord
