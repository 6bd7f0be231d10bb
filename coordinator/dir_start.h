// The start of a coordinator on the files of DIR: what it finds there, whether the job may go on
// with that, and the first generation. Owned by the coordinator, whose loop must not wait for
// storage: everything here blocks and is used on the executor alone.
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
  // `accepted` is that of CheckResumable. With `keeps_job`, a job in DIR that cannot become `job`
  // goes on as it was.
  DirStart(Files& files, std::string dir, Job job, std::string boot_id,
           std::vector<std::string> accepted = {}, bool keeps_job = false);

  struct Begun {
    bool done = false;  // the job is, and summary.json says so
    FoundInDir found;
    Job job;                           // the job that training resumes
    std::vector<std::string> untaken;  // keys of the job given that are another's there, with both
  };
  // Reads DIR, claims a generation, and takes back what an earlier end has left. It may be called
  // again after an error.
  absl::StatusOr<Begun> Begin();
  // Whether the newest checkpoint in DIR says that the job is done. Changes nothing in DIR, and
  // reads no checkpoint whole, so that Begin may yet find it damaged. False where DIR cannot be
  // read or holds another job: Begin says why.
  bool FindsDone();

 private:
  enum class Verdict { kGoOn, kDone, kDoneIfSound };
  absl::Status MakeDir();
  absl::StatusOr<FoundInDir> LookInDir();
  // Decides whether the job can go on from what was found. Takes back an end that another
  // `stop_when` decided.
  absl::StatusOr<Verdict> CheckFound(FoundInDir& found);
  // The job goes on as it was, for this reason; an error if it may not.
  absl::Status KeepJob(const std::string& before, const std::string& why);
  absl::StatusOr<uint64_t> ClaimFirst();
  absl::StatusOr<Verdict> LookAndClaim(FoundInDir& found);
  // Reads all of a checkpoint, once.
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
  std::map<std::string, absl::Status> verified_;  // name -> OK or the damage
};

}  // namespace paracord
