// Agreement of workers on the facts of a new job: what each worker has found in the model and the
// data, and when those facts suffice to fix the job. A single worker may have wrong files, so two
// workers have to report equal facts; after a timeout the most frequent facts win. If a single
// worker fixed the job, two workers with equal but different facts overrule it until training
// begins. Owned by the core.
//
// Invariant: only a worker's last report counts, be it facts or that the worker cannot take part.
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
  // `named` are the workers that the cluster names; the first facts wait `agree_ms` for
  // confirmation.
  Agreement(std::vector<std::string> named, int64_t agree_ms);

  // A worker asks to join, with or without facts.
  void Came(const std::string& task);
  // A worker cannot open its model or its data. True if the job itself must be wrong: no worker
  // named by the cluster can open them. If the cluster names no workers, true if all workers that
  // asked to join failed: two workers, or one for `agree_ms`.
  bool CannotTakePart(const std::string& task, int64_t now_ms);

  struct Outcome {
    std::optional<JobFacts> facts;  // fix the job by these facts; nullopt: not yet
    std::string waits;              // for people: what the job waits for; "" if nothing
    std::string differs;            // for people: that workers found different facts, or ""
  };
  Outcome Add(const std::string& task, const JobFacts& facts, int64_t now_ms);

  // A worker has found the facts by which the job is fixed.
  void Confirm(const std::string& task);
  // Whether only one worker has found the facts of the job, although the cluster names several.
  bool FixedByOneWorker() const { return named_.size() > 1 && confirmed_.size() < 2; }
  // A worker has found facts that differ from the job's. True if a second worker has reported equal
  // facts: the two overrule a job that a single worker fixed.
  bool Disagree(const std::string& task, const JobFacts& facts);

 private:
  const std::vector<std::string> named_;
  const int64_t agree_ms_;
  std::map<std::string, JobFacts> facts_;  // key: task
  std::set<std::string> unable_;           // tasks that cannot open their model or data
  std::set<std::string> came_;
  std::set<std::string> confirmed_;  // tasks that found the job's facts
  int64_t first_ms_ = 0;             // when the first facts came
  int64_t unable_ms_ = 0;            // when the first worker failed
};

}  // namespace paracord
