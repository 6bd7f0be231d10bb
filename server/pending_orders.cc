#include "server/pending_orders.h"

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "net/rpc_proto.h"

namespace paracord {

absl::Status TooManyWait() {
  return absl::ResourceExhaustedError(
      absl::StrCat("more than ", kWaitingMax, " calls wait for the same thing"));
}

absl::StatusOr<std::shared_ptr<PendingOrders::Loading>> PendingOrders::Load(const CallPtr& call,
                                                                            Answers& answers) {
  if (loading_ != nullptr) {
    if (loading_->waiting.size() >= kWaitingMax) return TooManyWait();
    loading_->waiting.push_back(call);
    return nullptr;
  }
  VoidWriting(absl::AbortedError("a Load replaces what was being written"), answers);
  written_.reset();
  loading_ = std::make_shared<Loading>();
  loading_->damage = damage_;
  loading_->waiting.push_back(call);
  return loading_;
}

absl::StatusOr<std::shared_ptr<Writing>> PendingOrders::Snapshot(uint64_t round,
                                                                 const CallPtr& call,
                                                                 Answers& answers) {
  if (written_.has_value() && written_->round == round) {
    answers.calls.emplace_back(call, ToParts(written_->reply));
    return nullptr;
  }
  const uint64_t newest = writing_ != nullptr    ? writing_->round
                          : written_.has_value() ? written_->round
                                                 : 0;
  if (round < newest) {
    return absl::AbortedError(
        absl::StrCat("round ", newest, " has been ordered after round ", round));
  }
  if (writing_ != nullptr && writing_->round == round) {
    if (writing_->waiting.size() >= kWaitingMax) return TooManyWait();
    writing_->waiting.push_back(call);
    return nullptr;
  }
  VoidWriting(absl::AbortedError("a newer round has been ordered"), answers);
  writing_ = std::make_shared<Writing>();
  writing_->round = round;
  writing_->waiting.push_back(call);
  return writing_;
}

std::optional<std::vector<CallPtr>> PendingOrders::EndLoad(
    const std::shared_ptr<Loading>& loading) {
  if (loading_ != loading) PROBE("ps.load.overtaken");
  if (loading_ != loading) return std::nullopt;
  loading_.reset();
  return std::move(loading->waiting);
}

std::optional<std::vector<CallPtr>> PendingOrders::EndSnapshot(
    const std::shared_ptr<Writing>& writing, const absl::StatusOr<SnapshotReply>& reply) {
  if (writing_ != writing) PROBE("ps.snapshot.overtaken");
  if (writing_ != writing) return std::nullopt;
  writing_.reset();
  if (reply.ok()) written_ = Written{writing->round, *reply};
  return std::move(writing->waiting);
}

void PendingOrders::VoidAll(const absl::Status& why, Answers& answers) {
  if (loading_ != nullptr) {
    for (CallPtr& call : loading_->waiting) answers.calls.emplace_back(std::move(call), why);
    loading_->waiting.clear();
    loading_.reset();
  }
  VoidWriting(why, answers);
}

void PendingOrders::VoidWriting(const absl::Status& why, Answers& answers) {
  if (writing_ == nullptr) return;
  for (CallPtr& call : writing_->waiting) answers.calls.emplace_back(std::move(call), why);
  writing_->waiting.clear();
  writing_->voided = true;
  answers.voided.push_back(std::exchange(writing_, nullptr));
}

}  // namespace paracord
