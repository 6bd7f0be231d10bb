// Exit codes of all programs. After a code of 128 or more, starting the program again may help.
#pragma once

namespace paracord {

enum class ExitCode : int {
  kDone = 0,
  // The job failed (summary.json says why), or a program could not write its output to stdout.
  kFailed = 1,
  kConfiguration = 2,
  kInUse = 3,  // another process uses the port, the directory or the worker's task
  kVersion = 4,
  // No checkpoint can be restored, or a checkpoint that was examined is damaged.
  kNoCheckpoint = 5,
  kDiverged = 6,
  kDrained = 143,  // the process ended after SIGTERM, SIGINT or SIGHUP
  kListenerDeaf = 200,
  kFenced = 201,    // a newer coordinator has taken over
  kPeerLost = 202,  // another process or the storage cannot be reached
  kDeviceFailed = 203,
};

}  // namespace paracord
