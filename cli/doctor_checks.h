// The single checks of `paracord doctor`. They change nothing, except that CheckJobDir makes a
// missing directory, and writes and removes small files in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/files.h"
#include "common/rpc.h"
#include "config/cluster.h"
#include "nlohmann/json.hpp"

namespace paracord {

struct Finding {
  enum class Level { kFine, kDoubtful, kWrong };
  Level level = Level::kFine;
  std::string topic;  // what is checked, such as "descriptors"
  std::string text;
  std::string remedy;  // what to do; empty: nothing
};

// Checks the limit on descriptors, the available memory and the space in /dev/shm, and reports the
// limit on locked memory.
std::vector<Finding> CheckLimits();
// Checks whether files in the job's directory can be written, renamed, synced and removed and,
// unless `dir` is a URL, its free space and the difference between the clock of its storage and
// `unix_ms`, the time of this host's clock.
std::vector<Finding> CheckJobDir(Files& files, const std::string& dir, int64_t unix_ms);
// Checks whether the address of a task, which is at `key` in the cluster's configuration, resolves
// and leads to a daemon of this version. With `ours`, if nobody answers, checks whether this host
// can listen there.
Finding CheckPeer(Network& network, const std::string& key, const std::string& address, bool ours);
// Checks how long the certificate in `path` is still valid, which expires at `expires_unix_s`.
Finding CheckCertificate(const std::string& path, int64_t expires_unix_s, int64_t unix_ms);
// Looks at the status of a job for partitions on a single ps although the job has copies, and for a
// move to other ps that waits or was given up. Ended jobs have no findings.
std::vector<Finding> CheckCopiesAndMove(const nlohmann::json& status);
// Checks whether the environment arms failpoints (common/failpoint.h), as tests do: daemons started
// from it would fail on purpose.
Finding CheckFailpoints();
// Checks the device that a worker would compute on.
Finding CheckDevice(const std::string& device);
// Checks that the programs of the daemons are in `folder` and executable for this user.
std::vector<Finding> CheckPrograms(const std::string& folder);

}  // namespace paracord
