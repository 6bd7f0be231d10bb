// A BatchFeed that reads the batches in the `upcoming` of the last Get ahead, on a thread of its
// own. If the next Get does not ask for the first of these batches, or announces others in place of
// the rest, what was read ahead is dropped.
#pragma once

#include <cstddef>
#include <memory>

#include "data/data_source.h"
#include "program/workload.h"

namespace paracord {

// `depth`: the most batches that are read ahead.
std::unique_ptr<BatchFeed> MakePreparedBatches(std::unique_ptr<DataSource> source, size_t depth);

}  // namespace paracord
