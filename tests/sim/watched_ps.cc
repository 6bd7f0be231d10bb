#include "sim/watched_ps.h"

#include <functional>
#include <utility>

#include "net/rpc_proto.h"
#include "proto/protocol.h"

namespace paracord {

// Wraps a call and remembers the answer.
class WatchedPs::WatchedCall : public ServerCall {
 public:
  explicit WatchedCall(std::shared_ptr<ServerCall> call) : call_(std::move(call)) {}
  void Reply(absl::StatusOr<Parts> reply) override {
    answer_ = reply.status();
    answered_ = true;
    if (reply.ok()) {
      for (const absl::Cord& part : *reply) bytes_.Append(part);
    }
    if (on_reply_) on_reply_();
    call_->Reply(std::move(reply));
  }
  void OnCancel(std::function<void()> fn) override { call_->OnCancel(std::move(fn)); }
  void OnReply(std::function<void()> fn) { on_reply_ = std::move(fn); }
  bool answered() const { return answered_; }
  const absl::Status& answer() const { return answer_; }
  const absl::Cord& bytes() const { return bytes_; }

 private:
  const std::shared_ptr<ServerCall> call_;
  absl::Status answer_;
  absl::Cord bytes_;
  std::function<void()> on_reply_;
  bool answered_ = false;
};

void WatchedPs::Handle(std::string_view method, absl::Cord request,
                       std::shared_ptr<ServerCall> call) {
  if (method == method::kExchange) return Exchange(request, std::move(call));
  const auto watched = std::make_shared<WatchedCall>(std::move(call));
  if (method == method::kLoad) {
    const auto load = ParseMessage<LoadRequest>(request);
    watched->OnReply([this, from = load.ok() ? load->checkpoint() : "", call = watched.get()] {
      if (call->answer().ok()) Loaded(from);
    });
  }
  ps_.Handle(method, request, watched);
  if (method != method::kAdopt || !watched->answered() || !watched->answer().ok()) return;
  const auto adopt = ParseMessage<AdoptRequest>(request);
  oracles_.oracle.Adopted(adopt->generation(), adopt->coordinator_boot_id());
}
// A repeated load may be answered long after training began, so only the first answer is checked.
void WatchedPs::Loaded(const std::string& checkpoint) {
  const std::shared_ptr<const PartitionSet> content = ps_.content();
  if (content == nullptr || content == loaded_) return;
  if (loaded_ != nullptr && loaded_->loaded_generation == content->loaded_generation) {
    oracles_.world.Violation("a ps loads twice in one generation");
  }
  oracles_.oracle.Loaded(*content, checkpoint, loaded_.get());
  loaded_ = content;
}

void WatchedPs::Exchange(const absl::Cord& request, std::shared_ptr<ServerCall> call) {
  const Oracle::PsSeen before = oracles_.oracle.Look(ps_);
  const auto watched = std::make_shared<WatchedCall>(std::move(call));
  const absl::StatusOr<DecodedRequest> decoded = DecodeExchangeRequest(request);
  const bool came_before =
      decoded.ok() && oracles_.sync != nullptr && oracles_.sync->CameBefore(decoded->header);
  ps_.Handle(method::kExchange, request, watched);
  if (!decoded.ok()) return oracles_.world.Violation("a worker sends a broken exchange");
  const Oracle::PsSeen after = oracles_.oracle.Look(ps_);
  // The state is looked at now: when the answer comes, this ps and its peers may hold later rounds.
  const uint64_t generation = decoded->header.fence().generation();
  if (oracles_.sync != nullptr && generation == ps_.generation()) {
    oracles_.sync->CheckHeld(ps_.boot_id(), generation, after);
  }
  if (watched->answered()) return Exchanged(*watched, *decoded, came_before, before, after);
  if (!decoded->header.has_state()) return oracles_.world.Violation("an exchange waits");
  // The push is entered, and the pull waits for a state.
  watched->OnReply(
      gate_.Enter([this, call = watched.get(), request = *decoded, came_before, before, after] {
        if (call->answer().ok()) Exchanged(*call, request, came_before, before, after);
      }));
}

void WatchedPs::Exchanged(const WatchedCall& call, const DecodedRequest& request, bool came_before,
                          const Oracle::PsSeen& before, const Oracle::PsSeen& after) {
  absl::StatusOr<DecodedReply> reply = DecodedReply();
  if (!call.answer().ok()) {
    reply = call.answer();
  } else {
    reply = DecodeExchangeReply(call.bytes());
    if (!reply.ok()) return oracles_.world.Violation("a ps sends a broken answer");
  }
  const absl::StatusOr<ExchangeReply> answer =
      reply.ok() ? absl::StatusOr<ExchangeReply>(reply->header) : reply.status();
  oracles_.oracle.Exchanged(ps_, request.header, answer, before, after);
  if (oracles_.sync != nullptr) {
    return oracles_.sync->Answered(request.header, ReadStep(request), reply, came_before, after);
  }
  oracles_.rounds.Answered(request.header, answer, oracles_.oracle.Look(ps_));
}

}  // namespace paracord
