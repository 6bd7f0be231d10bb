// Looks for columns of large numbers that reach a model's Dense layers unscaled, where training
// stalls. Blocking reads of the data, in main's thread.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"
#include "data/data_source.h"

namespace paracord {

// Returns a warning for each numeric column of data.train that a Dense multiplies, whose first
// values are large, and which neither the job (`mean`, `std`, `log`) nor a layer scales: with the
// range of the values, and the `mean` and `std` to write. Empty for data other than CSV, and for
// models other than Keras'.
std::vector<std::string> ScaleDoubts(const Job& job, const DataSource& train);

}  // namespace paracord
