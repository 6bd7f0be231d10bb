#include "server/staged.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"

namespace paracord {

void StagedPushes::Keep(DecodedRequest request, const std::shared_ptr<ServerCall>& call) {
  const ExchangeRequest& header = request.header;
  const std::string& worker = header.worker();
  const std::string& id = header.staged().id();
  if (id.empty() || header.has_batch() || header.rejected() || header.push_size() != 0 ||
      header.pull_size() != 0) {
    return call->Reply(
        absl::InvalidArgumentError("what is staged has an id and pieces and nothing else"));
  }
  uint64_t bytes = 0;
  for (const PieceView& piece : request.pieces) bytes += piece.data.size();
  Push another;  // let go of without the lock
  bool room = false;
  {
    MutexLock lock(mu_);
    const auto there = kept_.find(worker);
    if (there != kept_.end() && there->second.push.id != id) another = Remove(worker);
    room = bytes <= bytes_max_ - std::min(bytes_, bytes_max_);
    if (room) {
      Kept& kept = kept_[worker];
      kept.push.id = id;
      kept.bytes += bytes;
      bytes_ += bytes;
      std::ranges::move(request.pieces, std::back_inserter(kept.push.pieces));
      kept.push.calls.push_back(call);
    }
  }
  if (!room) {
    PROBE("ps.staged.no_room");
    return call->Reply(absl::ResourceExhaustedError(
        absl::StrCat("no room for ", bytes, " bytes before their exchange")));
  }
  // Without the lock, because it may run at once. By the address, since a reference here would keep
  // the call for ever.
  call->OnCancel([weak = weak_from_this(), worker, gone = call.get()] {
    if (const auto self = weak.lock()) self->Forget(worker, gone);
  });
}

absl::StatusOr<StagedPushes::Push> StagedPushes::Take(const ExchangeRequest& header) {
  Push push;
  {
    MutexLock lock(mu_);
    const auto there = kept_.find(header.worker());
    if (there != kept_.end() && there->second.push.id == header.staged().id()) {
      push = Remove(header.worker());
    }
  }
  if (!push.calls.empty() && push.calls.size() == header.staged().calls()) return push;
  PROBE("ps.staged.missing");
  return absl::UnavailableError(absl::StrCat(push.calls.size(), " of ", header.staged().calls(),
                                             " calls that staged this push are here"));
}

void StagedPushes::Clear() {
  std::map<std::string, Kept> kept;  // let go of without the lock
  MutexLock lock(mu_);
  kept.swap(kept_);
  bytes_ = 0;
}

uint64_t StagedPushes::bytes() const {
  MutexLock lock(mu_);
  return bytes_;
}

void StagedPushes::Forget(const std::string& worker, const ServerCall* call) {
  Push dropped;  // let go of without the lock
  MutexLock lock(mu_);
  const auto there = kept_.find(worker);
  if (there == kept_.end()) return;
  const auto& calls = there->second.push.calls;
  const bool its = std::ranges::any_of(calls, [&](const auto& kept) { return kept.get() == call; });
  if (its) dropped = Remove(worker);
}

StagedPushes::Push StagedPushes::Remove(const std::string& worker) {
  const auto there = kept_.find(worker);
  Kept kept = std::move(there->second);
  kept_.erase(there);
  bytes_ -= kept.bytes;
  return std::move(kept.push);
}

}  // namespace paracord
