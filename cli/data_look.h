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

// Shows the first records (ReadFirstRecords) to the program, which counts lookups in `counts`. An
// error is the program's: a value that its model does not take. Records that cannot be read are no
// error here: CheckFirstValues finds them.
absl::Status LookAtFirst(const DataSource& source, GradientProgram& program, LookupCounts& counts);

// INVALID_ARGUMENT has a line, in the words of `paracord validate`, for each problem with the files
// of `data.train` and `data.test` and with reading their first 1,000 records (fewer if large).
// `doubts` gets a line for each source whose first records have a value for which a batch would
// fail, such as NaN or a label of no class: the job's key `failures` says what happens then. A
// program in a process is not run; only the contents of its data files are checked. The reading is
// bounded: if the files of a source have more than 256 MiB together, CSV and TFRecord are read up
// to the last of the first 1,000 records, and compressed files and other formats not at all; of a
// folder of images only the first images are read. Nothing is read from an object store. Errors of
// storage are left to the workers.
absl::Status CheckFirstRecords(Files& files, const Job& job, std::vector<std::string>& doubts);

}  // namespace paracord
