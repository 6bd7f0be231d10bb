// A feed that reads the batches ahead which are said to come, on a thread of its own, as long as
// they do come in that order.
#pragma once

#include <cstddef>
#include <memory>

#include "data/data_source.h"
#include "program/workload.h"

namespace paracord {

// `depth`: how many batches are ready before they are asked for, at most kUpcomingMax.
std::unique_ptr<BatchFeed> MakePreparedBatches(std::unique_ptr<DataSource> source, size_t depth);

}  // namespace paracord
