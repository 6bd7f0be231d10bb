#include "store/step_check.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "exchange/encoding.h"
#include "exchange/lane_sum.h"
#include "exchange/round_norms.h"
#include "store/gradient.h"
#include "store/round_gate.h"

namespace paracord {
namespace {

absl::Status CheckIds(const Partition& partition, const RowIds& ids) {
  const std::string why = partition.WhyNotItsRows(ids);
  return why.empty() ? absl::OkStatus() : RefusePartition(partition.facts().id, why);
}

absl::Status CheckRows(const Partition& partition, const Update& update, bool rejected) {
  const uint32_t id = partition.facts().id;
  if (!update.rows.has_value() && update.gradient.empty()) return absl::OkStatus();
  if (!update.rows.has_value() && partition.lazy()) {
    return RefusePartition(id, partition.growing()
                                   ? "its rows are those of a growing table, and the push does not "
                                     "name them"
                                   : "its rows are updated lazily, and the push does not name "
                                     "them");
  }
  if (update.rows.has_value()) {
    RETURN_IF_ERROR(CheckIds(partition, *update.rows));
    if (rejected && !update.rows->empty()) return RefusePartition(id, "rows in a rejected batch");
  }
  if (!partition.is_table() || IsDense(update.encoding)) return absl::OkStatus();
  return RefusePartition(id, absl::StrCat("encoding ", static_cast<int>(update.encoding),
                                          " is not one of rows, which are float32, bf16 or f16"));
}

std::string WhereNotFinite(const Partition& partition, const PartitionUpdate& update) {
  if (!update.rows.has_value()) return "a gradient that is not finite";
  const uint64_t element = update.gradient.FirstNotFinite();
  return absl::StrCat("row ", (*update.rows)[element / partition.row_elements()],
                      " has a gradient that is not finite");
}

absl::StatusOr<CheckedUpdate> CheckUpdate(const PartitionSet& content, Update update,
                                          bool rejected) {
  Partition* const partition = content.Find(update.partition);
  const auto refuse = [&](const std::string& why) {
    return RefusePartition(update.partition, why);
  };
  if (partition == nullptr) return refuse("it is not held here");
  if (!partition->facts().trained) return refuse("it is not trained");
  if (rejected && !update.gradient.empty()) return refuse("a gradient in a rejected batch");
  RETURN_IF_ERROR(CheckRows(*partition, update, rejected));
  CheckedUpdate checked{partition, {}, rejected};
  checked.update.rows = std::move(update.rows);
  const Rows& rows = checked.update.rows;
  const bool some_rows = rows.has_value() && !rows->empty();
  if (update.gradient.empty() && !some_rows) return checked;
  absl::StatusOr<Gradient> gradient =
      Gradient::Read(update.encoding, ElementsOf(*partition, rows), std::move(update.gradient));
  if (!gradient.ok()) {
    const std::string why(gradient.status().message());
    return refuse(rows.has_value() ? absl::StrCat(why, " for ", rows->size(), " rows") : why);
  }
  checked.update.gradient = *std::move(gradient);
  if (!checked.update.gradient.Finite()) return refuse(WhereNotFinite(*partition, checked.update));
  return checked;
}

// A batch entered past the job's end would count, and no coordinator could go on from there.
absl::Status CheckBeforeEnd(const PartitionSet& content, const BatchId& batch) {
  uint64_t place = 0;
  const bool far = __builtin_mul_overflow(batch.epoch(), BatchesPerEpoch(content.plan), &place) ||
                   __builtin_add_overflow(
                       place, BatchInEpoch(content.plan, batch.split(), batch.batch()), &place);
  if (!far && place < content.batches_end) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "batch ", batch.batch(), " of split ", batch.split(), " of epoch ", batch.epoch() + 1,
      " is behind the end of the job, which has ", content.batches_end.load(), " batches"));
}

// The lanes that a push is the sum of.
absl::Status CheckLanes(const PartitionSet& content, const Step& step) {
  if (step.lanes == 1) return absl::OkStatus();
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("lanes: the push is of ", step.lanes, why));
  };
  if (!content.sync) {
    return refuse(", and only in synchronous training the gradients of several are added up");
  }
  if (step.rejected) return refuse(", and a rejected batch is pushed by itself");
  const auto first = static_cast<uint32_t>(step.batch.split());
  const uint32_t lanes = LanesOfRound(content.plan, step.batch.batch());
  if (IsLaneRun(first, step.lanes, lanes)) return absl::OkStatus();
  return refuse(absl::StrCat(" from lane ", first, " on, and round ", step.batch.batch(),
                             " of the epoch has ", lanes,
                             ": the number has to be a power of two that divides the first lane, "
                             "and the last lane has to be one of the round"));
}

absl::Status CheckUpdates(const PartitionSet& content, const Step& step,
                          std::vector<Update> updates, CheckedStep& checked) {
  ASSIGN_OR_RETURN(checked.batch, FindBatch(content.plan, step.batch));
  RETURN_IF_ERROR(CheckBeforeEnd(content, step.batch));
  RETURN_IF_ERROR(CheckLanes(content, step));
  checked.batch->lanes = step.lanes;
  for (Update& update : updates) {
    ASSIGN_OR_RETURN(CheckedUpdate one, CheckUpdate(content, std::move(update), step.rejected));
    checked.updates.push_back(std::move(one));
  }
  // No partition is named twice, and none that is not trained.
  if (checked.updates.size() == content.trained) return absl::OkStatus();
  std::set<uint32_t> named;
  for (const CheckedUpdate& update : checked.updates) named.insert(update.partition->facts().id);
  for (const auto& partition : content.partitions) {
    if (partition->facts().trained && !named.contains(partition->facts().id)) {
      return RefusePartition(partition->facts().id, "the push leaves it out");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckedWant> CheckWant(const PartitionSet& content, Want want) {
  const Partition* const partition = content.Find(want.partition);
  if (partition == nullptr) return RefusePartition(want.partition, "it is not held here");
  if (!IsDense(want.encoding)) {
    return RefusePartition(
        want.partition,
        absl::StrCat("encoding ", static_cast<int>(want.encoding), " is not one of values"));
  }
  if (want.state_only) {
    if (!want.rows.has_value()) return CheckedWant{partition, std::move(want)};
    return RefusePartition(want.partition, "rows are named, and their values are not wanted");
  }
  if (want.rows.has_value()) RETURN_IF_ERROR(CheckIds(*partition, *want.rows));
  if (!want.rows.has_value() && partition->growing()) {
    return RefusePartition(want.partition, "all of a growing table, which is to be named by rows");
  }
  return CheckedWant{partition, std::move(want)};
}

absl::Status CheckNorms(const PartitionSet& content, const RoundNorms& norms) {
  if (!content.clip.has_value()) {
    return absl::InvalidArgumentError("norms of a round come, and the job clips no round by norm");
  }
  if (norms.squares_size() != static_cast<int>(content.clip->variables())) {
    return absl::InvalidArgumentError(absl::StrCat("norms of ", norms.squares_size(),
                                                   " variables come, and the job has ",
                                                   content.clip->variables()));
  }
  for (const double squares : norms.squares()) {
    if (squares >= 0 && squares <= kSquaresMax) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a sum of squares comes for a norm that is ", squares));
  }
  return absl::OkStatus();
}

// A worker that pulls the state of all trained partitions proves that nobody needs the state
// before.
absl::Status WantsAllTrained(const PartitionSet& content, const std::vector<CheckedWant>& wants) {
  const auto trained = std::ranges::count_if(
      wants, [](const CheckedWant& want) { return want.partition->facts().trained; });
  // No partition is named twice.
  if (static_cast<size_t>(trained) == content.trained) return absl::OkStatus();
  for (const auto& partition : content.partitions) {
    const auto is_it = [&](const CheckedWant& want) { return want.partition == partition.get(); };
    if (!partition->facts().trained || std::ranges::any_of(wants, is_it)) continue;
    return RefusePartition(partition->facts().id,
                           "values of a state are wanted without its own, and a synchronous job "
                           "needs those of every trained partition, of a table with no rows if "
                           "need be");
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t ElementsOf(const Partition& partition, const Rows& rows) {
  return rows.has_value() ? rows->size() * partition.row_elements()
                          : partition.facts().bytes / sizeof(float);
}

absl::StatusOr<CheckedStep> CheckStep(const PartitionSet& content, StepRequest request) {
  CheckedStep checked;
  if (request.state.has_value()) {
    RETURN_IF_ERROR(CheckState(content.plan, request.state->state, content.batches_end));
  }
  for (Want& want : request.wants) {
    ASSIGN_OR_RETURN(CheckedWant one, CheckWant(content, std::move(want)));
    checked.wants.push_back(std::move(one));
  }
  if (request.state.has_value() && content.sync) {
    RETURN_IF_ERROR(WantsAllTrained(content, checked.wants));
  }
  if (request.norms.has_value()) RETURN_IF_ERROR(CheckNorms(content, *request.norms));
  checked.norms = std::move(request.norms);
  if (request.step.has_value()) {
    RETURN_IF_ERROR(CheckUpdates(content, *request.step, std::move(request.updates), checked));
  }
  return checked;
}

}  // namespace paracord
