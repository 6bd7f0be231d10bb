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
  std::string boot_id;         // identifies this process of the coordinator
  std::string new_run_id;      // the run id of a new job
  std::string proof_key = "";  // the key of this coordinator's proofs (config/proofs.h)
  std::string dir;             // the job's directory, as text for people
  // If the cluster names several workers: how long the facts (JobFacts) of the first worker wait
  // for a second worker to confirm them; five times that while workers still open files or
  // disagree.
  int64_t agree_ms = 0;
  std::string host = "";  // this coordinator's host, as text for people; "": not shown
  bool insecure = false;  // callers are not authenticated; for the status only
  // For the status: keys of the job file that do not count, because the job in `dir` goes on.
  std::vector<std::string> untaken = {};
  int64_t started_unix_ms = 0;

  // Whether the job has second holders of partitions.
  bool HasCopies() const { return job.partitioner.copies > 0 && !nodes; }
  // Whether second holders take part in every round of synchronous training.
  bool HasHotCopies() const { return HasCopies() && job.guarantees.sync(); }
  // Whether second holders prepare the checkpoints of asynchronous training.
  bool HasWarmCopies() const { return HasCopies() && !job.guarantees.sync(); }
  // Returns the job's directory as people are shown it.
  std::string ShownDir() const { return absl::StrCat(dir, host.empty() ? "" : " on host ", host); }
};

// The contents of the job's directory as the shell found them.
struct FoundInDir {
  uint64_t generation = 0;  // claimed for this coordinator before the directory was read
  std::optional<JobState> job_state;
  // The readable manifests, newest first.
  std::vector<Manifest> manifests;
  // Why job.state cannot be read; "" if it can or does not exist.
  std::string damaged_state;
  // Checkpoint -> why its manifest cannot be read, or why the checkpoint is damaged.
  std::map<std::string, std::string> unreadable;
};

}  // namespace paracord
