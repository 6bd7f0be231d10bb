// The checks of `paracord doctor`. They change nothing, except that CheckJobDir makes a missing
// directory and writes and removes small files in it, and that CheckPeer may listen for a moment.
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

// Checks the limit on file descriptors, the available memory and the space in /dev/shm, and reports
// the limit on locked memory without judging it.
std::vector<Finding> CheckLimits();
// Checks whether files in `dir`, the job's directory, can be written, renamed, synced and removed.
// Unless `dir` is a URL, also checks the free space, and how far the clock of the storage is from
// `unix_ms`, the time of this host's clock.
std::vector<Finding> CheckJobDir(Files& files, const std::string& dir, int64_t unix_ms);
// Checks whether `address`, the address of a task, resolves and leads to a daemon that answers.
// `key` is the key of the address in the cluster's configuration. With `ours`, if nobody answers,
// checks whether this host can listen at the address.
Finding CheckPeer(Network& network, const std::string& key, const std::string& address, bool ours);
// Checks how long a certificate is still valid. `path` is the certificate's file, and
// `expires_unix_s` the time when it expires.
Finding CheckCertificate(const std::string& path, int64_t expires_unix_s, int64_t unix_ms);
// Checks, in the status of a job, whether partitions are on a single ps although the job has
// copies, and whether a move of partitions to other ps takes long or was given up. Jobs that have
// ended have no findings.
std::vector<Finding> CheckCopiesAndMove(const nlohmann::json& status);
// Checks whether the environment arms failpoints (common/failpoint.h), as tests do: daemons started
// with this environment would fail on purpose.
Finding CheckFailpoints();
// Checks whether a worker with --device `device` would find the device.
Finding CheckDevice(const std::string& device);
// Checks that the programs of the daemons are in `folder`, can be run by this user, and are of this
// program's version, for which each is started with --version.
std::vector<Finding> CheckPrograms(const std::string& folder);

}  // namespace paracord
