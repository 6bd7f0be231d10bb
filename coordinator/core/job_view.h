// A read-only view of everything that the coordinator's core knows of its job, for example for the
// status report (report.h). The core makes a view on demand; a view is valid until the core's next
// step.
#pragma once

#include <cstdint>
#include <optional>

#include "coordinator/core/checkpoint_rounds.h"
#include "coordinator/core/checkpoints.h"
#include "coordinator/core/copies.h"
#include "coordinator/core/core_options.h"
#include "coordinator/core/epoch_history.h"
#include "coordinator/core/evaluations.h"
#include "coordinator/core/failures.h"
#include "coordinator/core/generation.h"
#include "coordinator/core/job_record.h"
#include "coordinator/core/lane_leases.h"
#include "coordinator/core/move.h"
#include "coordinator/core/phases.h"
#include "coordinator/core/ps_tracker.h"
#include "coordinator/core/refusals.h"
#include "coordinator/core/sessions.h"
#include "coordinator/core/shutdown.h"
#include "coordinator/core/throughput.h"
#include "coordinator/core/training.h"

namespace paracord {

struct JobView {
  const CoreOptions& options;
  const Phases& phases;
  const JobRecord& record;
  const Generation& generation;
  const PsTracker& ps;
  const Sessions& sessions;
  const Refusals& refusals;
  const Throughput& throughput;
  const Training& training;
  const EpochHistory& history;
  const LaneLeases& lanes;
  const Evaluations& evaluations;
  const Failures& failures;
  const Checkpoints& checkpoints;
  const CheckpointRounds& rounds;
  const Shutdown& end;
  const Move& move;
  const Copies& copies;
  std::optional<uint64_t> samples_found;  // examples of the batches that the first ledgers had

  JobExtent Extent() const { return record.Extent(evaluations.stop()); }
  // Returns the newest checkpoint of the state that the best evaluation scored; null if the job
  // keeps none (KeptBest) or there is none.
  const Manifest* BestCheckpoint() const {
    const EvaluationResult* const best = evaluations.KeptBest();
    return best == nullptr ? nullptr : checkpoints.Holding(Extent().BatchesUpTo(best->epoch + 1));
  }
};

}  // namespace paracord
