// Looks for columns of large numbers that reach a Dense layer of a model unscaled, which hardly
// learns from them. Blocking reads of the data, in main's thread.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"
#include "data/data_source.h"

namespace paracord {

// Returns a warning for each numeric column that data.train names and a Dense layer multiplies,
// that has a number beyond 100 in the first records, and that neither the job (`mean`, `std`,
// `log`) nor a layer scales: with the range of the numbers, and the `mean` and `std` to write.
// Empty for data other than CSV, and for models other than Keras'.
std::vector<std::string> ScaleDoubts(const Job& job, const DataSource& train);

}  // namespace paracord
