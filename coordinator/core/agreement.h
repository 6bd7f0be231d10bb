// Agreement of workers on the facts of a new job (what a worker finds in the model and the data).
// Decides when the facts suffice to fix the job, which is to write the job into job.state. A single
// worker may have wrong files: if the cluster names several workers, two have to report equal
// facts, or after a timeout the most frequent facts win. Until training begins, two workers with
// equal facts overrule different facts by which a single worker fixed the job. Owned by the core.
//
// Invariant: until a job is fixed, only a worker's last report counts: facts, or a failure to open
// files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proto/paracord.pb.h"

namespace paracord {

class Agreement {
 public:
  // `named` are the workers that the cluster names. If there are several, the first facts wait
  // `agree_ms` for confirmation, or five times that while workers still open files or disagree.
  Agreement(std::vector<std::string> named, int64_t agree_ms);

  // A worker asks to join, with or without facts.
  void Came(const std::string& task);
  // A worker cannot open its model or its data. True if the job itself must be wrong: no worker
  // named by the cluster can open its files. If the cluster names no workers, true if all workers
  // that asked to join have failed, at least two of them or the first at least `agree_ms` ago.
  bool CannotTakePart(const std::string& task, int64_t now_ms);

  struct Outcome {
    std::optional<JobFacts> facts;  // the facts that fix the job; nullopt: not known yet
    std::string waits;              // for people: what the job waits for; "": nothing
    std::string differs;            // for people: says that workers found different facts, or ""
  };
  Outcome Add(const std::string& task, const JobFacts& facts, int64_t now_ms);

  // A worker has found the facts by which the job is fixed.
  void Confirm(const std::string& task);
  // Whether fewer than two workers have found the facts of the job, although the cluster names
  // several.
  bool FixedByOneWorker() const { return named_.size() > 1 && confirmed_.size() < 2; }
  // A worker has found `facts`, which differ from the job's. True if a second worker has reported
  // equal facts, which overrule a job that a single worker fixed.
  bool Disagree(const std::string& task, const JobFacts& facts);

 private:
  const std::vector<std::string> named_;
  const int64_t agree_ms_;
  std::map<std::string, JobFacts> facts_;  // key: task
  std::set<std::string> unable_;           // tasks that cannot open their model or data
  std::set<std::string> came_;
  std::set<std::string> confirmed_;  // tasks that found the job's facts
  int64_t first_ms_ = 0;             // when the first facts came
  int64_t unable_ms_ = 0;            // when the first worker could not open its files
};

}  // namespace paracord
