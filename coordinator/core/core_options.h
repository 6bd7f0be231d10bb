// The input of the coordinator's core: its settings, and the contents of the job's directory as the
// shell found them. Plain data.
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
  // Tasks that the cluster names, such as "worker:0"; other workers may join too.
  std::vector<std::string> workers;
  bool nodes = false;          // whether worker N is also ps N
  std::string boot_id;         // identifies this coordinator process
  std::string new_run_id;      // the run id of a new job
  std::string proof_key = "";  // the key of lease proofs (config/proofs.h)
  std::string dir;             // the job's directory, for messages only
  // If the cluster names several workers: how long the facts of the first worker wait for a second
  // worker to confirm them.
  int64_t agree_ms = 0;
  std::string host = "";  // this coordinator's host, for messages only
  bool insecure = false;  // for the status only
  // Keys of the job file that are not in effect, for the status only.
  std::vector<std::string> untaken = {};
  int64_t started_unix_ms = 0;

  // Whether partitions have second holders.
  bool HasCopies() const { return job.partitioner.copies > 0 && !nodes; }
  // Whether second holders take part in every round of synchronous training.
  bool HasHotCopies() const { return HasCopies() && job.guarantees.sync(); }
  // Whether second holders prepare the checkpoints of asynchronous training.
  bool HasWarmCopies() const { return HasCopies() && !job.guarantees.sync(); }
  // The job's directory as messages show it.
  std::string ShownDir() const { return absl::StrCat(dir, host.empty() ? "" : " on host ", host); }
};

// The contents of the job's directory as the shell found them.
struct FoundInDir {
  uint64_t generation = 0;  // claimed for this coordinator before the directory was read
  std::optional<JobState> job_state;
  std::vector<Manifest> manifests;                // the readable ones, newest first
  std::string damaged_state;                      // why job.state cannot be read; "": it can
  std::map<std::string, std::string> unreadable;  // checkpoint -> why it cannot be read
};

}  // namespace paracord
