// Looks for columns of large numbers that reach a Dense layer of a model unscaled: the layer hardly
// learns from such numbers. Blocking reads of the data, in main's thread.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"
#include "data/data_source.h"

namespace paracord {

// Returns a warning for each numeric column that data.train names without a pattern, that reaches a
// Dense layer, that has a number beyond 100 in the first records, and that neither the job (`mean`,
// `std`, `log`) nor a layer scales. A warning has the range of the numbers, and the `mean` and
// `std` to write. Looks at the first 500 such columns. Returns nothing for data other than CSV, and
// for models other than Keras'.
std::vector<std::string> ScaleDoubts(const Job& job, const DataSource& train);

}  // namespace paracord
