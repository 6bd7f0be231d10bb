// The last step of a checkpoint round, which makes the checkpoint exist. On the executor.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/files.h"
#include "coordinator/core/events.h"

namespace paracord {

// Makes the round's directory durable, gives it its final name, and writes the manifest last: the
// checkpoint exists from then on. In an object store the manifest alone is written, where there is
// none yet. May be repeated. NOT_FOUND: the round's directory is gone. ABORTED: a newer coordinator
// has removed the round. ALREADY_EXISTS: an older coordinator has completed the job.
absl::Status Commit(Files& files, const std::string& checkpoints, const CommitRound& round);

// summary.json of a job that is done, as its last checkpoint `complete` says.
absl::Status WriteDoneSummary(Files& files, const std::string& dir, const Manifest& complete);

// summary.json of a job that ends under the coordinator of `generation`. ABORTED: a newer
// coordinator leads. If that one has completed the job while this summary was written, the summary
// of the completed job is written again from the newest manifest; the error, and the log, say so
// where that fails.
absl::Status WriteLastSummary(Files& files, const std::string& dir, uint64_t generation,
                              const std::string& contents);

}  // namespace paracord
