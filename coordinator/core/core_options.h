// The coordinator's core begins with these: its settings, and the job's directory as the shell
// found it. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "config/job.h"
#include "coordinator/core/job_state.h"
#include "storage/checkpoint.h"

namespace paracord {

struct CoreOptions {
  Job job;
  std::vector<std::string> ps_addresses;
  std::vector<std::string> workers;  // "worker:0": that the cluster names; others may join too
  bool nodes = false;                // these workers are the ps as well, by their indices
  std::string boot_id;               // identifies this coordinator process
  std::string new_run_id;            // taken if the job is new
  std::string proof_key = "";        // drawn by this coordinator (config/proofs.h)
  std::string dir;                   // the job's directory, for messages alone
  // If the cluster names several workers: how long the facts of the first worker wait for a second
  // worker to confirm them.
  int64_t agree_ms = 0;
  std::string host = "";                  // this coordinator's host, for messages alone
  bool insecure = false;                  // for the status alone
  std::vector<std::string> untaken = {};  // keys of the job file, for the status alone
  int64_t started_unix_ms = 0;

  // Partitions have second holders.
  bool HasCopies() const { return job.partitioner.copies > 0 && !nodes; }
  // They take part in every round of synchronous training.
  bool HasHotCopies() const { return HasCopies() && job.guarantees.sync(); }
  // They prepare the checkpoints of asynchronous training.
  bool HasWarmCopies() const { return HasCopies() && !job.guarantees.sync(); }
  // The job's directory in messages.
  std::string ShownDir() const { return absl::StrCat(dir, host.empty() ? "" : " on host ", host); }
};

// The job's directory as the shell found it.
struct FoundInDir {
  uint64_t generation = 0;  // claimed for this coordinator before it looked at the rest
  std::optional<JobState> job_state;
  std::vector<Manifest> manifests;                // readable ones, newest first
  std::string damaged_state;                      // why job.state cannot be read
  std::map<std::string, std::string> unreadable;  // checkpoints, with why
};

}  // namespace paracord
