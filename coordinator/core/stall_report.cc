#include "coordinator/core/stall_report.h"

#include <cctype>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace paracord {
namespace {

constexpr int64_t kSayMissingMs = 2000;  // after the start; then every kSayMissingAgainMs
constexpr int64_t kSayMissingAgainMs = 30000;
constexpr int64_t kSilentMs = 2000;  // silence of a ps before it is reported
constexpr size_t kStallsMax = 8;     // named one by one

}  // namespace

std::string MissingTasks(const JobView& job) {
  std::vector<std::string> missing = job.ps.Missing();
  const size_t asking = job.sessions.asking();
  const std::string wait = absl::StrCat(asking, asking == 1 ? " worker waits" : " workers wait");
  std::string more;
  if (!job.record.fixed() || job.sessions.empty()) {
    const std::string& last = job.refusals.last();
    if (asking > 0 && !missing.empty()) {
      more = absl::StrCat("; ", wait, " to join");
    } else {
      missing.push_back(absl::StrCat("a worker (",
                                     asking > 0               ? wait + " to join"
                                     : job.sessions.AnyCame() ? "none is left"
                                                              : "none has joined",
                                     last.empty() ? "" : absl::StrCat("; the last to come: ", last),
                                     ")"));
    }
  }
  return absl::StrCat("missing ", absl::StrJoin(missing, ", "), more);
}

std::string WaitReason(const JobView& job) {
  const std::string& unwritten = job.record.writer().problem();
  const bool layout = job.copies.writing() || job.move.Is(Move::Phase::kWriting);
  if (!unwritten.empty() && (job.evaluations.unsaved() || !job.record.fixed() || layout)) {
    return "job.state cannot be written: " + unwritten;
  }
  if (job.move.keeps_workers_out()) {
    const std::string other_dirs = job.ps.OtherDirs();
    return absl::StrCat("the job moves to ", job.move.plan().to.ps.size(), " ps",
                        other_dirs.empty() ? "" : ": ", other_dirs,
                        job.ps.AnyIs(PsState::kAway) ? ": " + MissingTasks(job) : "");
  }
  if (!job.ps.AllAre(PsState::kReady)) {
    const std::string other_dirs = job.ps.OtherDirs();
    if (!other_dirs.empty()) return other_dirs;
    if (!job.ps.AnyIs(PsState::kAway)) return "the parameter servers load their partitions";
    return "training is parked: " + MissingTasks(job);
  }
  switch (job.phases.now()) {
    case Phase::kEvaluating:
      return job.sessions.all().size() > 1 ? "the rest of the evaluation is with other workers"
                                           : "the evaluation is being computed";
    case Phase::kFinishing:
      return job.rounds.problem().empty() ? "the final checkpoint is being written"
                                          : "the final checkpoint fails: " + job.rounds.problem();
    case Phase::kTraining:
      if (job.end.planned()) return "the coordinator is ending the job";
      return job.record.plan().lanes() > 0
                 ? "the epoch's lanes are with other workers, or yours wait for a round"
                 : "the rest of the epoch's splits are with other workers";
    default:
      return "the ledgers are being read";
  }
}

std::string Stalls(const JobView& job, int64_t now_ms) {
  std::vector<std::string> stalls;
  for (size_t i = 0; i < job.ps.size(); ++i) {
    const Ps& ps = job.ps.all()[i];
    const int64_t silent_ms = now_ms - ps.heard_ms;
    if (ps.state == PsState::kAway || silent_ms < kSilentMs) continue;
    stalls.push_back(absl::StrFormat(
        "ps:%d at %s has not answered for %.1f s: it hangs, or cannot be reached; it counts as "
        "away after timeouts.ps_ms = %d ms",
        i, ps.address, static_cast<double>(silent_ms) / 1000, job.options.job.timeouts.ps_ms));
  }
  size_t more = 0;
  for (const auto& [id, session] : job.sessions.all()) {
    if (session.waits_for.empty()) continue;
    if (stalls.size() >= kStallsMax) {
      ++more;
    } else {
      stalls.push_back(absl::StrCat(session.task, " waits for ", session.waits_for));
    }
  }
  if (more > 0) stalls.push_back(absl::StrCat(more, " more workers wait for a ps"));
  if (std::string slow = job.ps.SlowReaders(); !slow.empty()) stalls.push_back(std::move(slow));
  return absl::StrJoin(stalls, "; ");
}

std::string Waiting(const JobView& job, int64_t now_ms) {
  if (job.phases.ended()) return "";
  const bool all_ready = job.ps.AllAre(PsState::kReady);
  const bool moves = job.phases.training() || job.phases.now() == Phase::kEvaluating;
  if (moves && all_ready && !job.sessions.empty()) return Stalls(job, now_ms);
  if (!job.generation.problem().empty()) return job.generation.problem();
  const bool unwritten = !job.record.writer().problem().empty() && job.copies.writing();
  if (unwritten || job.move.keeps_workers_out()) return WaitReason(job);
  const bool missing = (!job.record.fixed() && job.record.writer().problem().empty()) ||
                       (job.sessions.empty() && (job.ps.AnyIs(PsState::kAway) || all_ready));
  return missing ? MissingTasks(job) : WaitReason(job);
}

StallReport::StallReport(int64_t now_ms, Effects& effects)
    : effects_(effects), say_missing_at_ms_(now_ms + kSayMissingMs) {}

void StallReport::Say(const JobView& job, int64_t now_ms) {
  SayStalls(job, now_ms);
  if (now_ms < say_missing_at_ms_) return;
  if (job.phases.ended() || (job.phases.formed() && job.sessions.AnyCame())) return;
  say_missing_at_ms_ = now_ms + kSayMissingAgainMs;
  effects_.Info("waits: " + MissingTasks(job));
}

void StallReport::SayStalls(const JobView& job, int64_t now_ms) {
  std::string stalls = job.phases.training() ? Stalls(job, now_ms) : "";
  std::string said = stalls;
  std::erase_if(said, [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
  if (said == stalls_said_) return;
  if (!stalls.empty() && stalls_said_.empty()) effects_.Warn("training waits: " + stalls);
  stalls_said_ = std::move(said);
}

}  // namespace paracord
