// The single checks of `paracord doctor`. None changes anything, except for a small file in the
// job's directory, written and removed again.
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
  std::string topic;   // "descriptors"
  std::string text;    // what is found
  std::string remedy;  // what to do; empty where nothing is to be done
};

// Checks descriptors, available memory, memory files and locked memory.
std::vector<Finding> CheckLimits();
// Checks whether files in the job's directory can be written, renamed and synced, its free space,
// and the difference between the storage's clock and this host's.
std::vector<Finding> CheckJobDir(Files& files, const std::string& dir, int64_t unix_ms);
// Checks whether a task's address resolves and leads to a daemon of this version; with `ours`,
// whether this host can listen at it. `key` is the cluster's key for the address.
Finding CheckPeer(Network& network, const std::string& key, const std::string& address, bool ours);
// Whether the own certificate holds, and for how long: it expires at `expires_unix_s`.
Finding CheckCertificate(const std::string& path, int64_t expires_unix_s, int64_t unix_ms);
// Looks at the status of a running job for partitions on a single ps although the job has copies,
// and for a move to other ps that waits or was abandoned. None for a job without copies or moves.
std::vector<Finding> CheckCopiesAndMove(const nlohmann::json& status);
// Checks whether the environment arms failpoints, as tests do: daemons started from it would fail
// on purpose.
Finding CheckFailpoints();
// Checks the device that a worker would compute on.
Finding CheckDevice(const std::string& device);
// Checks the programs in `folder` and their versions.
std::vector<Finding> CheckPrograms(const std::string& folder);

}  // namespace paracord
