// Exit codes of all programs. After a code from 128 on, starting the program again may help.
#pragma once

namespace paracord {

enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,  // the job failed (summary.json says why), or stdout did not take all output
  kConfiguration = 2,
  kInUse = 3,  // a port, a directory, or a worker's task is in use
  kVersion = 4,
  kNoCheckpoint = 5,  // none of the checkpoints can be restored
  kDiverged = 6,
  kDrained = 143,  // the process left after SIGTERM, SIGINT or SIGHUP
  kListenerDeaf = 200,
  kFenced = 201,    // a newer coordinator took over
  kPeerLost = 202,  // a peer or the storage is out of reach
  kDeviceFailed = 203,
};

}  // namespace paracord
