// Loading the ps: from which checkpoint, and what follows when that cannot be read.
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/probe.h"
#include "common/status_text.h"
#include "coordinator/core/core.h"
#include "storage/claim.h"

namespace paracord {
namespace {

// Of timeouts.start_s: so long a checkpoint is tried that is not damaged and cannot be read.
constexpr int64_t kPatienceShare = 4;

// A call that may have happened or not, and may be repeated.
bool Transient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

}  // namespace

bool CoordinatorCore::HoldsItsPartitions(uint32_t index) const {
  const PsDescription& description = ps_[index].description;
  if (description.run_id() != state_.run_id) return false;
  std::set<uint32_t> expected;
  for (const PartitionSpec& partition : layout_) {
    if (partition.ps() == index) expected.insert(partition.id());
  }
  std::set<uint32_t> held;
  for (const PartitionDescription& partition : description.partitions()) {
    held.insert(partition.id());
  }
  return held == expected;
}

// Whether one is adopted, with nothing or with other partitions than its own.
bool CoordinatorCore::AnyPsNeedsLoad() const {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (ps_[i].stage == PsStage::kAdopted && !HoldsItsPartitions(i)) return true;
  }
  return false;
}

void CoordinatorCore::LoadOrAttach(uint32_t index) {
  Ps& ps = ps_[index];
  LoadRequest load;
  load.set_keep(HoldsItsPartitions(index));
  if (load.keep() && ps.description.settings() == PsSettings(job_)) return PsReady(index);
  const Manifest* const usable = checkpoints_.Usable();
  if (load.keep()) {
    PROBE("coordinator.ps.settings");
  } else if (usable != nullptr) {
    load.set_checkpoint(usable->name.ToString());
  } else if (checkpoints_.Lost(state_.counters.checkpoints)) {
    // Unless a newer coordinator has removed them: that is for the answer to say.
    ps.retry_at_ms = now_ms_ + kRepeatMs;
    return Emit(FindNewestGeneration());
  }
  if (ps.loading_from != load.checkpoint()) ps.unread_since_ms.reset();
  ps.loading_from = load.checkpoint();
  *load.mutable_fence() = FenceFor(ps);
  load.set_coordinator_boot_id(options_.boot_id);
  load.set_job_json(state_.job_json);
  load.set_claim(ClaimText(generation_.claimed(), options_.boot_id));
  *load.mutable_plan() = state_.plan;
  for (const VariableSpec& variable : state_.variables) *load.add_variables() = variable;
  for (const PartitionSpec& partition : layout_) {
    if (partition.ps() == index) *load.add_partitions() = partition;
  }
  if (load.keep()) {
    Info(absl::StrCat("ps:", index, " is told the job's learning rate and timeouts"));
  } else if (!ps.unread_since_ms.has_value()) {
    Info(absl::StrCat("ps:", index, load.checkpoint().empty() ? " creates" : " restores", " ",
                      load.partitions_size(), " partitions",
                      load.checkpoint().empty() ? "" : " from " + load.checkpoint()));
  }
  generation_.Use();
  SendPs(index, ps.call_tag, kAllOfPsMs, load);
}

// Shared storage may take a moment to show what another host has written, or be mounted soon.
void CoordinatorCore::OnOtherDir(uint32_t index) {
  Ps& ps = ps_[index];
  PROBE("coordinator.ps.other_dir");
  const std::string problem = absl::StrCat(
      "its --dir, ", ps.description.other_dir(), ", holds no ", kGenerationPrefix,
      generation_.claimed(), ", which was written into the coordinator's --dir, ", Dir(),
      ": --dir has to be the same directory for all tasks, on storage that their "
      "hosts share");
  if (ps.problem != problem) Warn(absl::StrCat("ps:", index, " has another directory: ", problem));
  ps.problem = problem;
  ps.retry_at_ms = now_ms_ + kRepeatMs;
}

// Of the ps that see another DIR than ours; "" if there are none.
std::string CoordinatorCore::OtherDirs() const {
  std::string lines;
  for (size_t i = 0; i < ps_.size(); ++i) {
    const bool other = ps_[i].stage == PsStage::kAdopted && !ps_[i].description.other_dir().empty();
    if (!other) continue;
    absl::StrAppend(&lines, lines.empty() ? "" : "; ", "ps:", i, " at ", ps_[i].address,
                    " has another directory: ", ps_[i].problem);
  }
  return lines;
}

std::string CoordinatorCore::Dir() const {
  return absl::StrCat(options_.dir, options_.host.empty() ? "" : " on host ", options_.host);
}

void CoordinatorCore::OnLoaded(uint32_t index, const absl::StatusOr<PsReply>& reply) {
  Ps& ps = ps_[index];
  if (reply.ok()) {
    ps.description = std::get<PsDescription>(*reply);
    if (!ps.description.other_dir().empty()) return OnOtherDir(index);
    if (HoldsItsPartitions(index)) return PsReady(index);
    return PsLost(index, "it loaded other partitions than it was told to");
  }
  const absl::Status& status = reply.status();
  if (Transient(status) || absl::IsAborted(status)) return PsLost(index, Text(status));
  // Of several ps that load the same one, the first to fail strikes it out for all.
  const bool restoring = !ps.loading_from.empty();
  const bool damaged = SaysDamaged(status);
  if (!ps.unread_since_ms.has_value()) ps.unread_since_ms = now_ms_;
  const int64_t patience_ms = job_.timeouts.start_s * 1000 / kPatienceShare;
  const bool unreadable = now_ms_ - *ps.unread_since_ms >= patience_ms && !damaged;
  if (restoring && (damaged || unreadable)) {
    const std::string why = absl::StrCat(
        "ps:", index, ": ", Text(status),
        unreadable
            ? absl::StrCat(", for ", static_cast<double>(patience_ms) / 1000, " s; it stays there")
            : "");
    Error(absl::StrCat("checkpoint ", ps.loading_from, " is refused: ", why,
                       "; trying the one before it"));
    PROBE("coordinator.checkpoint.unusable");
    checkpoints_.Refuse(ps.loading_from, why);
    forms_since_ms_ = now_ms_;
    ps.retry_at_ms = now_ms_;
    return;
  }
  if (damaged || absl::IsInvalidArgument(status)) {
    return EndJob(ExitCode::kConfiguration, "failed",
                  absl::StrCat("ps:", index, ": ", Text(status)));
  }
  if (ps.problem != Text(status)) {
    Warn(absl::StrCat("ps:", index, " cannot load, and tries again: ", Text(status)));
  }
  ps.problem = Text(status);
  ps.retry_at_ms = now_ms_ + kRepeatMs;
}

}  // namespace paracord
