#include "coordinator/core/summary_writer.h"

#include <utility>

#include "common/probe.h"
#include "coordinator/core/limits.h"

namespace paracord {
namespace {

constexpr uint32_t kTriesMax = 30;

}  // namespace

void SummaryWriter::Write(std::string text, const Generation& generation) {
  if (generation.claiming()) {
    held_ = std::move(text);
  } else {
    effects_.Emit(WriteSummary{std::move(text), generation.claimed()});
  }
}

void SummaryWriter::Say(std::string text, const Generation& generation) {
  pending_ = true;
  Write(std::move(text), generation);
}

void SummaryWriter::ClaimEnded(const Generation& generation) {
  if (!held_.has_value()) return;
  effects_.Emit(WriteSummary{*std::exchange(held_, std::nullopt), generation.claimed()});
}

void SummaryWriter::SayDone(std::string text, const Generation& generation) {
  done_ = std::move(text);
  Write(*done_, generation);
}

void SummaryWriter::Tick(const Generation& generation, int64_t now_ms) {
  if (again_at_ms_ == 0 || now_ms < again_at_ms_) return;
  again_at_ms_ = 0;
  Write(*done_, generation);
}

bool SummaryWriter::Failed(int64_t now_ms) {
  PROBE("coordinator.summary.failed");
  if (++tries_ >= kTriesMax) return true;
  again_at_ms_ = now_ms + kRepeatMs;
  return false;
}

}  // namespace paracord
