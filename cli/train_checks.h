// The checks of `paracord train` and `paracord launch` before a process is started: the job's
// strategy, model and data files, and whether partitions and the rows of batches fit into the
// processes that hold the variables.
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

// Returns the shape of the cluster that the flags --ps, --workers and --device ask for.
ClusterShape ShapeOf(int64_t ps, int64_t workers, const std::string& device);

// Returns the bytes that --memory-limit says ("": nine tenths of this machine's memory).
// INVALID_ARGUMENT: the text is no size, or less than a process that holds variables needs.
absl::StatusOr<uint64_t> MemoryLimitOf(const std::string& memory_limit, const Holders& holders);

// Reads the job, with its defaults for the cluster that the flags ask for. Unless the job names its
// `consistency` or `flags.fresh` is set, the `consistency` of an earlier run in DIR is kept. Sets
// `flags.ps` and `flags.dir` to the number of ps and the absolute path of DIR. INVALID_ARGUMENT
// names the key or the flag.
absl::StatusOr<JobInCluster> ReadJobOf(Files& files, TrainFlags& flags);

// Returns the memory that the processes with the job's variables need. Counts the most rows of
// tables that a batch can read, or, if these do not fit into `memory_limit`, the rows of the first
// batch (no rows if the data cannot be read here). `ps` of the result is empty if the variables are
// not known here: the model is a program, or its shapes depend on data that cannot be read here. An
// error says what is wrong with the model or its partitions.
absl::StatusOr<BatchNeeds> NeedsIn(Files& files, const Job& job, const Holders& holders,
                                   uint64_t memory_limit);

// Checks that the holders of the variables can train the job, if each has `memory_limit` bytes
// (nullopt: their memory is unknown). An error says what does not fit, or what is wrong with the
// model. `lines` gets the needs of the tables. A model that is a program is not checked, since its
// variables are not known here. Reads data only if the model's shapes depend on them, or to count
// the rows of a batch if the most rows do not fit.
absl::Status CheckFits(Files& files, const Job& job, const Holders& holders,
                       std::optional<uint64_t> memory_limit, std::vector<std::string>& lines);

// Checks the files that the job names in this machine's file systems. NOT_FOUND names the first
// file or pattern of data.train, initial_weights or data.test that finds nothing, and its key. If
// the job `resumes` from a checkpoint, nobody reads the initial weights, so that their file may be
// missing. INVALID_ARGUMENT: a path of data has a scheme that nobody reads, such as gs://, or names
// a single empty file, a folder or device in place of a file, or a file in place of a folder.
// PERMISSION_DENIED: this user may not read a file of data. Files in an object store are left to
// the workers.
absl::Status CheckDataFiles(Files& files, const Job& job, bool resumes);

// Checks what can be checked without data: the optimizers and, unless the model is a program, the
// model, the losses, the metrics, `stages` and `tables`. INVALID_ARGUMENT names the first wrong
// optimizer or, if all optimizers are right, has a line for each problem of the rest.
absl::Status CheckModel(const Job& job);

// Checks the model, and whether the job fits into processes with --memory-limit (without this flag
// the memory of other hosts is unknown). Unless the daemons run on other hosts or the job in DIR is
// done already, also checks the data files and, unless the job resumes, their first records. Prints
// warnings on standard error, and with --verbose also `notes`, which gets lines for people about
// tables and the job's needs.
absl::Status CheckBeforeStart(Files& files, const TrainFlags& flags, const Job& job,
                              std::vector<std::string>& notes);

// Writes `notes` to DIR/logs/notes.txt, in place of the notes of an earlier run.
absl::Status KeepNotes(Files& files, const std::string& dir, const std::vector<std::string>& notes);

// Describes for people on what device, or on how many hosts, the job is trained. An error: this
// machine lacks the device that the flags name.
absl::StatusOr<std::string> WhereItComputes(const TrainFlags& flags);

// Describes for people what is trained, how and on what.
std::string StartText(const TrainFlags& flags, const JobInCluster& job, const std::string& where);

}  // namespace paracord
