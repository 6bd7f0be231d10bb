// Scores a range of the test records: the one way in which a job's workers, the evaluator and
// `paracord evaluate` do it. On the executor's thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "program/workload.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Records [first, end) in batches of `batch`; fills in examples and metrics of `report`. An error
// names file and record, or what the model has against them.
absl::Status Evaluate(Workload& workload, ConstTensors values, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report);

}  // namespace paracord
