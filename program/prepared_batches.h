// A BatchFeed that reads the batches announced in `upcoming` ahead, on a thread of its own. If Get
// asks for another batch than the announced one, what was read ahead is dropped.
#pragma once

#include <cstddef>
#include <memory>

#include "data/data_source.h"
#include "program/workload.h"

namespace paracord {

// `depth`: the most batches that are read ahead.
std::unique_ptr<BatchFeed> MakePreparedBatches(std::unique_ptr<DataSource> source, size_t depth);

}  // namespace paracord
