#include "worker/staged_push.h"

#include <algorithm>
#include <utility>

#include "common/probe.h"
#include "common/trace.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr int64_t kPauseMs = 30000;  // since refused gradients are sent twice

}  // namespace

StagedPushSender::StagedPushSender(StagedPushOptions options, std::shared_ptr<ParameterCopy> copy,
                                   uint32_t buffer, std::vector<Link*> links,
                                   Environment environment, Gate::Pass session,
                                   std::shared_ptr<StagedPushPauses> pauses)
    : options_(std::move(options)),
      copy_(std::move(copy)),
      buffer_(buffer),
      links_(std::move(links)),
      environment_(environment),
      session_(std::move(session)),
      pauses_(std::move(pauses)),
      refused_(links_.size()) {
  const auto gradients = copy_->gradients().arrays(buffer_);
  for (const std::span<float> gradient : gradients) left_bytes_ += gradient.size_bytes();
  added_.resize(gradients.size());
  staged_.variables.resize(gradients.size());
  staged_.calls.resize(links_.size());
  for (size_t ps = 0; ps < links_.size(); ++ps) {
    sends_.push_back(!links_[ps]->shares_memory() && environment_.loop.NowMs() >= (*pauses_)[ps]);
    if (sends_[ps]) enough_ += options_.bytes;
  }
}

bool StagedPushSender::Add(size_t variable) {
  added_[variable] = true;
  GradientBuffers& gradients = copy_->gradients();
  if (!gradients.Finite(buffer_, variable) || !gradients.Encode(buffer_, variable)) return false;
  const uint64_t bytes = gradients.arrays(buffer_)[variable].size_bytes();
  waiting_.push_back(variable);
  waiting_bytes_ += bytes;
  left_bytes_ -= std::min(left_bytes_, bytes);  // a table's bytes were those of the batch before
  // The exchange follows at once if hardly any gradients remain.
  if (enough_ == 0 || waiting_bytes_ < enough_ || left_bytes_ * 16 < options_.bytes) return true;
  waiting_bytes_ = 0;
  environment_.loop.Post([self = shared_from_this(), variables = std::exchange(waiting_, {})] {
    self->Send(variables);
  });
  return true;
}

void StagedPushSender::Send(const std::vector<size_t>& variables) {
  if (!session_.open()) return;
  PROBE("worker.staged_push");
  const TraceSpan span("early push");
  if (staged_.id.empty()) staged_.id = environment_.random.NextId();
  for (const size_t variable : variables) staged_.variables[variable] = true;
  for (uint32_t ps = 0; ps < links_.size(); ++ps) {
    if (!sends_[ps]) continue;
    Parts request = copy_->StageRequest(ps, options_.task, staged_.id, buffer_, variables);
    if (request.empty()) continue;
    ++staged_.calls[ps];
    links_[ps]->Call(method::kStage, std::move(request), options_.deadline_ms,
                     [self = shared_from_this(), &loop = environment_.loop,
                      ps](const absl::StatusOr<absl::Cord>& reply) {
                       if (!reply.ok()) loop.Post([self, ps] { self->Refused(ps); });
                     });
  }
}

const StagedGradients* StagedPushSender::For(uint32_t ps) const {
  return staged_.calls[ps] > 0 && !refused_[ps] ? &staged_ : nullptr;
}

void StagedPushSender::Refused(uint32_t ps) {
  refused_[ps] = true;
  (*pauses_)[ps] = environment_.loop.NowMs() + kPauseMs;
}

bool StagedPushSender::any_refused() const {
  return std::ranges::find(refused_, true) != refused_.end();
}

}  // namespace paracord
