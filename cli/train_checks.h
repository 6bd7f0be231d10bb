// The checks of `paracord train` before it starts a process: the job's strategy, and whether
// partitions and the rows of batches fit into the processes that hold them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/batch_needs.h"
#include "cli/train.h"
#include "common/files.h"
#include "config/job.h"
#include "config/strategy.h"

namespace paracord {

// Returns the cluster that --ps, --workers and --device of a command ask for.
ClusterShape ShapeOf(int64_t ps, int64_t workers, const std::string& device);

// Returns the bytes of --memory-limit, by default nine tenths of this machine's memory.
// INVALID_ARGUMENT: the text is no size, or less than a process that holds variables needs.
absl::StatusOr<uint64_t> MemoryLimitOf(const std::string& memory_limit, const Holders& holders);

// Reads the job, with its defaults for the cluster that the flags ask for and with what the
// earlier run in DIR fixed. Sets `ps` and `dir` of the flags: the number of ps in the cluster, and
// the absolute path of DIR. INVALID_ARGUMENT names the key or the flag.
absl::StatusOr<JobInCluster> ReadJobOf(Files& files, TrainFlags& flags);

// Returns the memory that the processes with the job's variables need. Counts the most rows of
// tables that a batch can read, or, if those do not fit into `memory_limit`, the rows of the first
// batch (none if the data cannot be read here). The result names no ps if the variables are not
// known here: the model is a program in a process, or its shapes depend on data that cannot be read
// here. An error concerns the model.
absl::StatusOr<BatchNeeds> NeedsIn(Files& files, const Job& job, const Holders& holders,
                                   uint64_t memory_limit);

// Checks that the processes that hold the variables can train the job with this --memory-limit for
// each of them (none: their memory is unknown). INVALID_ARGUMENT names the key of the job. `lines`
// gets the needs of the tables. A program in a process is not checked, since only the program knows
// its variables. Reads data only if the model's shapes depend on the data.
absl::Status CheckFits(Files& files, const Job& job, const Holders& holders,
                       std::optional<uint64_t> memory_limit, std::vector<std::string>& lines);

// NOT_FOUND names the first file of the job's training or test data or initial weights, or the
// first pattern, that is not in this machine's file systems, and its key. Nobody reads the initial
// weights of a job that `resumes` from a checkpoint, so their file may be missing. Files in an
// object store are left to the workers. INVALID_ARGUMENT: a path has a scheme that nobody reads,
// such as gs://, is a folder or a device where a file is read, or an empty file. PERMISSION_DENIED:
// this user may not read it.
absl::Status CheckDataFiles(Files& files, const Job& job, bool resumes);

// INVALID_ARGUMENT has a line for each problem of the model, the losses, the metrics, `stages`,
// `tables` and the optimizers that shows without data. Of a program, only the optimizers are
// checked.
absl::Status CheckModel(const Job& job);

// Prints the job's warnings on standard error (with --verbose also notes). Checks the model, the
// room for the job in processes on this machine (the memory of other hosts is unknown here) and,
// unless the job in DIR is done already, that the data exist. `notes` gets the job's needs in lines
// for people.
absl::Status CheckBeforeStart(Files& files, const TrainFlags& flags, const Job& job,
                              std::vector<std::string>& notes);

// Writes the notes to DIR/logs/notes.txt, in place of an earlier run's.
absl::Status KeepNotes(Files& files, const std::string& dir, const std::vector<std::string>& notes);

// Describes for people what device the job is trained on. An error says that the requested device
// is missing.
absl::StatusOr<std::string> WhereItComputes(const TrainFlags& flags);

// Describes for people what is trained, how and on what.
std::string StartText(const TrainFlags& flags, const JobInCluster& job, const std::string& where);

}  // namespace paracord
