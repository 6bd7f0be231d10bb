// The checks of `paracord train` before it starts a process: strategy, model and data files of the
// job, and whether partitions and the rows of batches fit into the processes with the variables.
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

// Reads the job, with its defaults for the cluster that the flags ask for, and with the
// `consistency` of an earlier run in DIR if the job names none. Sets `ps` and `dir` of the flags:
// the number of ps in the cluster, and the absolute path of DIR. INVALID_ARGUMENT names the key or
// the flag.
absl::StatusOr<JobInCluster> ReadJobOf(Files& files, TrainFlags& flags);

// Returns the memory that the processes with the job's variables need. Counts the most rows of
// tables that a batch can read, or, if those do not fit into `memory_limit`, the rows of the first
// batch (none if the data cannot be read here). `ps` of the result is empty if the variables are
// not known here: the model is a program in a process, or its shapes depend on data that cannot be
// read here. An error says what is wrong with the model or its partitions.
absl::StatusOr<BatchNeeds> NeedsIn(Files& files, const Job& job, const Holders& holders,
                                   uint64_t memory_limit);

// Checks that the holders of the variables can train the job, each with this --memory-limit
// (nullopt: their memory is unknown). INVALID_ARGUMENT names the key of the job. `lines` gets the
// needs of the tables. A program in a process is not checked, since only the program knows its
// variables. Reads data only if the model's shapes depend on them, or to count the rows of a batch
// if the most rows do not fit.
absl::Status CheckFits(Files& files, const Job& job, const Holders& holders,
                       std::optional<uint64_t> memory_limit, std::vector<std::string>& lines);

// NOT_FOUND names the first file or pattern of the job's training data, initial weights or test
// data that finds nothing in this machine's file systems, and its key. Nobody reads the initial
// weights of a job that `resumes` from a checkpoint, so their file may be missing. Files in an
// object store are left to the workers. INVALID_ARGUMENT: a path of data has a scheme that nobody
// reads, such as gs://, or names an empty file, a folder or device in place of a file, or a file in
// place of a folder. PERMISSION_DENIED: this user may not read a file of data.
absl::Status CheckDataFiles(Files& files, const Job& job, bool resumes);

// Checks what can be checked without data: the optimizers and, unless the model is a program, the
// model, the losses, the metrics, `stages` and `tables`. INVALID_ARGUMENT names the first wrong
// optimizer, or else has a line for each problem of the others.
absl::Status CheckModel(const Job& job);

// Checks the model, and whether the job fits into processes with --memory-limit (by default on this
// machine; without the flag the memory of other hosts is unknown). Unless the daemons run on other
// hosts or the job in DIR is done already, also checks the data files, and their first records if
// the job does not resume. Prints warnings on standard error, and with --verbose notes. `notes`
// gets the notes on tables and the job's needs, for people.
absl::Status CheckBeforeStart(Files& files, const TrainFlags& flags, const Job& job,
                              std::vector<std::string>& notes);

// Writes the notes to DIR/logs/notes.txt, in place of those of an earlier run.
absl::Status KeepNotes(Files& files, const std::string& dir, const std::vector<std::string>& notes);

// Describes for people on what device, or on how many hosts, the job is trained. An error: the
// requested device is missing.
absl::StatusOr<std::string> WhereItComputes(const TrainFlags& flags);

// Describes for people what is trained, how and on what.
std::string StartText(const TrainFlags& flags, const JobInCluster& job, const std::string& where);

}  // namespace paracord
