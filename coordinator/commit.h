// The last step of a checkpoint round, which makes the checkpoint exist, and the writing of
// summary.json at the end of a job. Every function here blocks.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/files.h"
#include "coordinator/core/events.h"

namespace paracord {

// Makes the round's directory durable, renames it to the checkpoint's name and writes the manifest
// last, with which the checkpoint exists. In an object store only the manifest is written, and only
// if there is none yet. Commit may be called again after an error. NOT_FOUND: the round's directory
// is gone. ABORTED (in an object store): a newer coordinator has removed the round, or the manifest
// is another coordinator's. ALREADY_EXISTS: another coordinator has completed the job.
absl::Status Commit(Files& files, const std::string& checkpoints, const CommitRound& round);

// Writes the summary.json of a job that is done, from `complete`, the job's last manifest.
absl::Status WriteDoneSummary(Files& files, const std::string& dir, const Manifest& complete);

// Writes `contents` as the summary.json of a job that ends under the coordinator of `generation`.
// ABORTED: a newer coordinator leads. If a newer coordinator completed the job during this write,
// the summary of the completed job, from the newest manifest, replaces `contents`; if that second
// write fails, the error and the log say so.
absl::Status WriteLastSummary(Files& files, const std::string& dir, uint64_t generation,
                              const std::string& contents);

}  // namespace paracord
