// Before a new job is fixed: what each worker has found in the model and the data, and when that is
// enough to go by. A single worker may have wrong files, so two workers have to report equal facts;
// after a timeout the most frequent facts win. If one worker alone fixed the job, two others that
// agree with each other overrule it until training begins. Owned by the core.
//
// Invariant: only a worker's last report counts: its facts, or that it cannot take part.
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
  // `named` are the workers that the cluster names; `agree_ms` is how long one waits for another.
  Agreement(std::vector<std::string> named, int64_t agree_ms);

  // A worker asks to join, with facts or without.
  void Came(const std::string& task);
  // A worker cannot open its model or its data. True if no worker of the cluster spec can, in which
  // case the job itself is wrong. If the cluster spec names no workers, true if every worker that
  // joined failed: two of them, or one for `agree_ms`.
  bool CannotTakePart(const std::string& task, int64_t now_ms);

  struct Outcome {
    std::optional<JobFacts> facts;  // the job is to be fixed by these
    std::string waits;              // what is waited for, if it is not
    std::string differs;            // for people, if not all have found the same
  };
  Outcome Add(const std::string& task, const JobFacts& facts, int64_t now_ms);

  // The job is fixed, and a worker finds what the job goes by.
  void Confirm(const std::string& task);
  // Whether what the job goes by is the word of one worker at most, where the cluster names
  // several.
  bool FixedByOneWorker() const { return named_.size() > 1 && confirmed_.size() < 2; }
  // The job is fixed, and a worker finds something else. True if a second worker reports equal
  // facts, which overrule a job that one worker alone fixed.
  bool Disagree(const std::string& task, const JobFacts& facts);

 private:
  const std::vector<std::string> named_;
  const int64_t agree_ms_;
  std::map<std::string, JobFacts> facts_;  // by task name
  std::set<std::string> unable_;           // whose model or data cannot be opened
  std::set<std::string> came_;
  std::set<std::string> confirmed_;  // tasks that have found what the job goes by
  int64_t first_ms_ = 0;             // when the first facts came
  int64_t unable_ms_ = 0;            // when the first worker could not take part
};

}  // namespace paracord
