// Looks at the first records of a job's data as a worker would, without a cluster: the checks of
// `paracord validate` that `paracord train` makes before it starts a process. Blocking, in main's
// thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/files.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/gradient_program.h"

namespace paracord {

// Shows the first records (ReadFirstRecords) to the program. An error is the program's: values
// outside of what its model takes. Records that cannot be read are left to CheckFirstValues.
absl::Status LookAtFirst(const DataSource& source, GradientProgram& program, LookupCounts& counts);

// INVALID_ARGUMENT has a line for each problem with the files of `data.train` and `data.test` and
// with reading their first 1,000 records (fewer if large), in the words of `paracord validate`.
// `doubts` gets a line for each source whose first records have a value for which a batch would
// fail, such as NaN or a label of no class: the job's key `failures` decides then. A program in a
// process is not run; only the contents of its data files are checked. The reading is bounded: if
// files have more than 256 MiB together, CSV and TFRecord are read up to the last of these records,
// and other formats not at all. Nothing is read from an object store. Errors of storage are left to
// the workers.
absl::Status CheckFirstRecords(Files& files, const Job& job, std::vector<std::string>& doubts);

}  // namespace paracord
