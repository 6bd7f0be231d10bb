// The start of a coordinator from the files of the job's directory (DIR): reads what earlier
// coordinators left, decides whether the job can go on, and claims this coordinator's first
// generation. Every function here blocks; the coordinator calls Begin on the executor.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "config/job.h"
#include "coordinator/core/core.h"

namespace paracord {

class DirStart {
 public:
  // `accepted` are program files that may have changed (CheckResumable). With `keeps_job`, a job in
  // DIR that cannot go on with the keys of `job` goes on unchanged.
  DirStart(Files& files, std::string dir, Job job, std::string boot_id,
           std::vector<std::string> accepted = {}, bool keeps_job = false);

  struct Begun {
    bool done = false;  // the job was done already, and its summary.json is written again
    FoundInDir found;
    Job job;  // the job that training resumes
    // If the job in DIR goes on unchanged: the keys in which the constructor's job differs from it,
    // with both values.
    std::vector<std::string> untaken;
  };
  // Reads DIR. If the job is not done, claims a generation; if the job was done but now has more to
  // do, marks the newest checkpoint as not final. May be called again after an error.
  absl::StatusOr<Begun> Begin();
  // Whether the newest checkpoint in DIR marks the job as done, and the constructor's job has no
  // more to do. Does not read the checkpoint whole: Begin may still find damage. False if DIR
  // cannot be read or its job cannot go on: Begin returns the error. Called before Begin.
  bool FindsDone();

 private:
  enum class Verdict { kGoOn, kDone, kDoneIfSound };
  absl::Status MakeDir();
  absl::StatusOr<FoundInDir> LookInDir();
  // Decides whether the job can go on from `found`. Drops an early stop from `found` if the job's
  // `stop_when` has changed since.
  absl::StatusOr<Verdict> CheckFound(FoundInDir& found);
  // With keeps_job_, makes the job with the JSON `before` the job_; else returns `why` as an error.
  absl::Status KeepJob(const std::string& before, const std::string& why);
  absl::StatusOr<uint64_t> ClaimFirst();
  absl::StatusOr<Verdict> LookAndClaim(FoundInDir& found);
  // Reads a checkpoint whole and records in verified_ whether it is sound. An error: the storage
  // failed.
  absl::Status Verify(const std::string& checkpoint);
  absl::Status TakeCompletionBack(FoundInDir& found);
  absl::Status SetSummaryAside();
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }

  Files& files_;
  const std::string dir_;
  Job job_;
  const std::string boot_id_;
  const std::vector<std::string> accepted_;
  const bool keeps_job_;
  std::vector<std::string> untaken_;
  std::map<std::string, absl::Status> verified_;  // name of a checkpoint -> OK, or its damage
};

}  // namespace paracord
