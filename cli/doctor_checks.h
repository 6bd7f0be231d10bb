// These are the checks of `paracord doctor`, each by itself. They change nothing but a small file
// that they write into the job's directory and remove again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/files.h"
#include "common/rpc.h"
#include "config/cluster.h"

namespace paracord {

struct Finding {
  enum class Level { kFine, kDoubtful, kWrong };
  Level level = Level::kFine;
  std::string topic;   // "descriptors"
  std::string text;    // what is found
  std::string remedy;  // what to do; empty where nothing is to be done
};

// Descriptors, memory that this process may take, memory files, locked memory.
std::vector<Finding> CheckLimits();
// Whether the directory of a job can be written, renamed and synced in, how much room it has, and
// how far its storage's clock is from this host's.
std::vector<Finding> CheckJobDir(Files& files, const std::string& dir, int64_t unix_ms);
// Whether a task's address resolves and leads to a daemon of this version, or, where `ours`, can be
// listened at. `key` is the cluster's.
Finding CheckPeer(Network& network, const std::string& key, const std::string& address, bool ours);
// Whether the own certificate holds, and for how long: it expires at `expires_unix_s`.
Finding CheckCertificate(const std::string& path, int64_t expires_unix_s, int64_t unix_ms);
// Whether the environment arms failpoints, as tests do, so that daemons started from it would fail
// on purpose.
Finding CheckFailpoints();
// The device that a worker would compute on.
Finding CheckDevice(const std::string& device);
// The programs beside this one, and their versions.
std::vector<Finding> CheckPrograms(const std::string& folder);

}  // namespace paracord
