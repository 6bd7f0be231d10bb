// A feed that reads announced batches ahead on a thread of its own, as long as they arrive in the
// announced order.
#pragma once

#include <cstddef>
#include <memory>

#include "data/data_source.h"
#include "program/workload.h"

namespace paracord {

// `depth`: how many batches are prepared before Get asks for them, at most kUpcomingMax.
std::unique_ptr<BatchFeed> MakePreparedBatches(std::unique_ptr<DataSource> source, size_t depth);

}  // namespace paracord
