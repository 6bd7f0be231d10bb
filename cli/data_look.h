// Looks at the first records of a job's data as a worker would, without a cluster: checks that
// `paracord train` makes before it starts a process. `paracord validate` also uses LookAtFirst.
// Blocking, in main's thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/files.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/gradient_program.h"

namespace paracord {

// Shows the first records (ReadFirstRecords) to the program, which counts in `counts` the values
// that its vocabularies have and lack. An error says which value the program's model does not take.
// Records that cannot be read are no error here: CheckFirstValues finds them.
absl::Status LookAtFirst(const DataSource& source, GradientProgram& program, LookupCounts& counts);

// INVALID_ARGUMENT has a line for each problem with the files of `data.train` and `data.test`, with
// reading their first records (1,000, or fewer if they are large), and with building the model for
// them. `doubts` gets a line for a value among a source's first records for which a batch would
// fail, such as NaN or a label of no class: the job's key `failures` says what happens then. A
// model that is a program is not run; only its data are checked. The reading is bounded: if the
// files of a source have more than 256 MiB together, csv and tfrecord are read up to the last of
// the first records, and compressed files and other formats not at all; of a folder of images only
// the first images are read. Nothing is read from an object store. Errors of storage are left to
// the workers.
absl::Status CheckFirstRecords(Files& files, const Job& job, std::vector<std::string>& doubts);

}  // namespace paracord
