#include "store/staged_pushes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"

namespace paracord {
namespace {

constexpr size_t kNameMax = 256;  // bytes of an id, and of a worker's name

uint64_t BytesOf(const DecodedRequest& request) {
  constexpr uint64_t kAround = 256;
  return 2 * kNameMax + kAround * (1 + request.pieces.size()) + PieceBytes(request.pieces);
}

// A piece keeps the whole message around it in memory. If less than half of the message is pieces,
// the pieces are copied, so that at most twice the counted bytes are held.
void Detach(DecodedRequest& request, uint64_t message_bytes) {
  if (PieceBytes(request.pieces) >= message_bytes / 2) return;
  for (PieceView& piece : request.pieces) piece.data = absl::Cord(std::string(piece.data));
}

absl::Status Check(const DecodedRequest& request) {
  const ExchangeRequest& header = request.header;
  if (header.staged().id().empty() || request.pieces.empty() || header.has_batch() ||
      header.rejected() || header.push_size() != 0 || header.pull_size() != 0) {
    return absl::InvalidArgumentError("what is staged has an id and pieces and nothing else");
  }
  if (header.staged().bytes() != PieceBytes(request.pieces)) {
    return absl::InvalidArgumentError(absl::StrCat("pieces of ", PieceBytes(request.pieces),
                                                   " bytes instead of ", header.staged().bytes(),
                                                   ": cut off"));
  }
  if (header.staged().id().size() <= kNameMax && header.worker().size() <= kNameMax) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the worker or the id has more than ", kNameMax, " bytes"));
}

}  // namespace

absl::Status StagedPushes::Keep(DecodedRequest request, uint64_t message_bytes, int64_t now_ms) {
  absl::Status fits = Check(request);
  if (!fits.ok()) return fits;
  const ExchangeRequest& header = request.header;
  const uint64_t bytes = BytesOf(request);
  Detach(request, message_bytes);
  std::vector<Push> dropped;  // destroyed without the lock
  MutexLock lock(mu_);
  const auto there = pushes_.find(header.worker());
  if (there != pushes_.end() && there->second.id != header.staged().id()) {
    dropped.push_back(Remove(there));
  }
  if (!share_->Reserve(bytes)) {
    PROBE("ps.staged.no_room");
    return absl::ResourceExhaustedError(
        absl::StrCat("no room for ", bytes, " bytes before their exchange"));
  }
  Push& push = pushes_[header.worker()];
  push.id = header.staged().id();
  ++push.calls;
  push.bytes += bytes;
  push.kept_ms = now_ms;
  bytes_ += bytes;
  std::ranges::move(request.pieces, std::back_inserter(push.pieces));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PieceView>> StagedPushes::Take(const ExchangeRequest& header) {
  if (header.staged().id().empty() || header.staged().calls() == 0) {
    return absl::InvalidArgumentError("a push that was staged by nobody");
  }
  Push push;
  {
    MutexLock lock(mu_);
    const auto there = pushes_.find(header.worker());
    if (there != pushes_.end() && there->second.id == header.staged().id()) push = Remove(there);
  }
  if (push.calls == header.staged().calls()) return std::move(push.pieces);
  PROBE("ps.staged.missing");
  return absl::NotFoundError(absl::StrCat(push.calls, " of ", header.staged().calls(),
                                          " calls that staged this push are here"));
}

void StagedPushes::Clear() {
  Pushes pushes;  // destroyed without the lock
  MutexLock lock(mu_);
  pushes.swap(pushes_);
  share_->Subtract(std::exchange(bytes_, 0));
}

bool StagedPushes::Forget(int64_t now_ms) {
  std::vector<Push> dropped;  // destroyed without the lock
  MutexLock lock(mu_);
  for (auto push = pushes_.begin(); push != pushes_.end();) {
    const auto next = std::next(push);
    if (now_ms - push->second.kept_ms >= kForgottenMs) dropped.push_back(Remove(push));
    push = next;
  }
  return !pushes_.empty();
}

uint64_t StagedPushes::bytes() const {
  MutexLock lock(mu_);
  return bytes_;
}

StagedPushes::Push StagedPushes::Remove(Pushes::iterator push) {
  Push removed = std::move(push->second);
  pushes_.erase(push);
  bytes_ -= removed.bytes;
  share_->Subtract(removed.bytes);
  return removed;
}

}  // namespace paracord
