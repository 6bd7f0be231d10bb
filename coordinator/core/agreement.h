// Before a new job is fixed: what each worker has found in the model and the data, and when that is
// enough to go by. One worker's files may be others than the rest's, so two have to find the same;
// or, after a while, what most of those find that have come. A job that was fixed by what one
// worker alone had found goes by what two others find, as long as it has not begun to train. Owned
// by the core.
//
// Invariant: a worker counts by what it said last, with what it found or as one that cannot take
// part.
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
  // A worker can open its model or its data not at all. True if that is so of all that the cluster
  // names, which means that the job itself is wrong. If it names none, that has to be so of all
  // that have come, and of two, or of one for `agree_ms`.
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
  bool OneWord() const { return named_.size() > 1 && confirmed_.size() < 2; }
  // The job is fixed, and a worker finds something else. True if it is the second one that finds
  // just this: the job is to go by it, if it goes by one word.
  bool Dissent(const std::string& task, const JobFacts& facts);

 private:
  const std::vector<std::string> named_;
  const int64_t agree_ms_;
  std::map<std::string, JobFacts> facts_;  // by task
  std::set<std::string> unable_;           // whose model or data cannot be opened
  std::set<std::string> came_;
  std::set<std::string> confirmed_;  // tasks that have found what the job goes by
  int64_t first_ms_ = 0;             // when the first facts came
  int64_t unable_ms_ = 0;            // when the first worker could not take part
};

}  // namespace paracord
