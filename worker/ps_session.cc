#include "worker/ps_session.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/limit_error.h"
#include "common/probe.h"
#include "common/status_text.h"
#include "exchange/reply_sink.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr int64_t kRetryMs = 100;
// How long a ps may hold back an answer whose state is not there. The worker begins no newly
// granted lane meanwhile, for which others may be waiting.
constexpr int64_t kWaitMs = 100;
constexpr int64_t kSlowMs = 1500;         // an exchange this long names the ps it waits for
constexpr int64_t kTracks = 1000;         // each ps has a track: calls overlap
constexpr uint32_t kNoRoomDoublings = 4;  // doublings of kRetryMs while a ps has no room

size_t TrainedPartitions(const Session& session, std::span<const VariableSpec> variables) {
  return static_cast<size_t>(
      std::ranges::count_if(session.partitions(), [&](const PartitionSpec& partition) {
        return partition.variable() < variables.size() &&
               variables[partition.variable()].trainable();
      }));
}

}  // namespace

// The values of the copy, the gradients of one of its buffers, and the rows of tables of a step.
class PsSession::Step : public StepArrays {
 public:
  Step(std::shared_ptr<ParameterCopy> copy, uint32_t buffer, SharedRows rows,
       std::shared_ptr<StagedPushSender> early)
      : copy_(std::move(copy)),
        pulled_(copy_->pulled()),
        buffer_(buffer),
        rows_(std::move(rows)),
        values_(copy_->values().begin(), copy_->values().end()),
        early_(std::move(early)) {}

  void Prepare() override {
    copy_->gradients().Prepare(buffer_, rows_);
    if (rows_ == nullptr || rows_ == pulled_->rows) return;
    gathered_.resize(values_.size());
    for (size_t v = 0; v < values_.size(); ++v) {
      if (rows_->ids[v].empty()) continue;
      GatherRows(pulled_->rows->ids[v], values_[v], rows_->ids[v], gathered_[v]);
      values_[v] = gathered_[v];
    }
  }
  ConstTensors values() const override { return values_; }
  MutableTensors gradients() const override { return copy_->gradients().arrays(buffer_); }
  bool GradientFinite(size_t variable) const override {
    return copy_->gradients().Finite(buffer_, variable);
  }
  bool Encode(size_t variable) override { return copy_->gradients().Encode(buffer_, variable); }
  void UseRows(SharedRows rows) override { copy_->gradients().Prepare(buffer_, std::move(rows)); }
  bool wants_early() const override { return early_ != nullptr; }
  bool Add(size_t variable) override { return early_->Add(variable); }
  bool added(size_t variable) const override {
    return early_ != nullptr && early_->added(variable);
  }

  uint32_t buffer() const { return buffer_; }
  const std::shared_ptr<StagedPushSender>& early() const { return early_; }

 private:
  const std::shared_ptr<ParameterCopy> copy_;
  const std::shared_ptr<PulledRows> pulled_;  // owner of the memory in values_
  const uint32_t buffer_;
  const SharedRows rows_;
  std::vector<std::span<const float>> values_;
  std::vector<std::vector<float>> gathered_;       // index: variable
  const std::shared_ptr<StagedPushSender> early_;  // or nullptr
};

PsSession::PsSession(PsSessionOptions options, Session session, std::shared_ptr<Workload> workload,
                     std::vector<Link*> links, Environment environment,
                     std::function<void(std::string why)> stale)
    : options_(std::move(options)),
      session_(std::move(session)),
      workload_(std::move(workload)),
      links_(std::move(links)),
      environment_(environment),
      stale_(std::move(stale)),
      // Norms need all gradients, and residuals the exchange before; with overlap nobody waits for
      // a push. Lanes computed side by side are mostly pushed later, or as a sum.
      pushes_early_(!options_.overlap && !options_.transfer.keeps_residuals() &&
                    !workload_->clip.on() && workload_->devices == nullptr),
      early_pauses_(std::make_shared<StagedPushPauses>(links_.size())),
      norms_(TrainedPartitions(session_, workload_->program->variables()),
             static_cast<uint32_t>(workload_->program->variables().size())) {}

// Making the copy touches its pages, which takes longer for large models than the loop may block.
void PsSession::Open(std::function<void()> done) {
  const auto made = std::make_shared<std::shared_ptr<ParameterCopy>>();
  environment_.executor.Run(
      [made, session = session_, workload = workload_, transfer = options_.transfer] {
        const GradientProgram& program = *workload->program;
        const ValuesIn memory = program.host_memory() ? ValuesIn::kOrdinary : ValuesIn::kShared;
        const size_t devices = workload->devices == nullptr ? 1 : workload->devices->size();
        *made = std::make_shared<ParameterCopy>(session, program.variables(), transfer, memory,
                                                devices);
        (*made)->gradients().Prepare(0);  // the second comes with its batch
      },
      gate_.Enter([this, made, done = std::move(done)] {
        copy_ = std::move(*made);
        done();
      }));
}

bool PsSession::Has(const SharedRows& rows) const {
  if (!copy_->has_tables()) return true;
  const std::shared_ptr<PulledRows>& pulled = copy_->pulled();
  return pulled != nullptr && std::ranges::find(pulled->batches, rows) != pulled->batches.end();
}

// Steps side by side have a buffer each. A step that is computed during an exchange has the buffer
// that the exchange does not use.
std::shared_ptr<StepArrays> PsSession::Begin(const SharedRows& rows, uint32_t place) {
  const bool single = workload_->devices == nullptr;
  const uint32_t buffer = single && calls_.done != nullptr ? 1 - calls_.order.buffer : place;
  copy_->BeginBatch(buffer);
  std::shared_ptr<StagedPushSender> early;
  if (pushes_early_) {
    early = std::make_shared<StagedPushSender>(
        StagedPushOptions{options_.task, options_.exchange_ms, options_.staged_push_bytes}, copy_,
        buffer, links_, environment_, gate_.Hold(), early_pauses_);
  }
  reading_ = true;
  return std::make_shared<Step>(copy_, buffer, rows, std::move(early));
}

// Nobody reads the values now, so replies that came meanwhile are taken over.
void PsSession::End() {
  reading_ = false;
  if (calls_.done == nullptr) return;
  const bool over = calls_.open == 0;
  if (over) return Finish();
  const Gate::Pass session = gate_.Hold();
  for (auto& [ps, reply] : std::exchange(calls_.parked, {})) {
    Answered(ps, std::move(reply));
    if (!session.open()) return;  // the reply ended the session
  }
}

void PsSession::GiveUp(const StepArrays& step) {
  const Step& own = static_cast<const Step&>(step);
  // Calls with early gradients may be under way.
  if (own.early() == nullptr || !own.early()->any_sent()) return;
  PROBE("worker.staged_push.given_up");
  copy_->gradients().GiveUp(own.buffer());
}

void PsSession::Exchange(ExchangeOrder order, const std::shared_ptr<StepArrays>& step,
                         DoneFn done) {
  calls_ = Calls();
  ++exchange_id_;
  calls_.order = std::move(order);
  calls_.order.incoming = copy_->Expect(calls_.order.rows);
  if (calls_.order.state.has_value()) {  // well before the call's deadline
    int64_t wait_ms = std::min(kWaitMs, options_.exchange_ms / 2);
    if (calls_.order.wait_ms > 0) wait_ms = std::min<int64_t>(wait_ms, calls_.order.wait_ms);
    calls_.order.wait_ms = static_cast<uint32_t>(wait_ms);
  }
  if (!calls_.order.lease_proof.empty()) {
    norms_.Leased(calls_.order.leased, calls_.order.lease_proof);
  }
  calls_.order.norms = norms_.Begin();
  if (step != nullptr) {
    calls_.order.buffer = static_cast<const Step&>(*step).buffer();
    calls_.early = static_cast<const Step&>(*step).early();
  }
  calls_.result.outcome.next = std::numeric_limits<uint32_t>::max();
  calls_.tries.resize(links_.size());
  for (uint32_t ps = 0; ps < links_.size(); ++ps) {
    calls_.tries[ps].answered = !copy_->layout().TakesPart(ps);
    if (copy_->layout().TakesPart(ps)) ++calls_.open;
  }
  calls_.done = std::move(done);
  for (uint32_t ps = 0; ps < links_.size(); ++ps) {
    if (!copy_->layout().TakesPart(ps)) continue;
    calls_.tries[ps].first_sent_ms = environment_.loop.NowMs();
    Send(ps);
  }
}

std::string PsSession::WaitsFor() const {
  std::string text;
  for (size_t ps = 0; calls_.open > 0 && ps < calls_.tries.size(); ++ps) {
    const PsTries& tries = calls_.tries[ps];
    const int64_t waited_ms = environment_.loop.NowMs() - tries.first_sent_ms;
    if (tries.answered || waited_ms < kSlowMs) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", "ps:", ps, " for ", waited_ms / 1000, " s (",
                    tries.problem.empty() ? "no answer yet" : tries.problem, ")");
  }
  return text;
}

void PsSession::Send(uint32_t ps) {
  PsTries& tries = calls_.tries[ps];
  // A repeated call carries all gradients: a ps uses early gradients for a single call.
  const bool first = tries.sent++ == 0;
  const StagedGradients* const staged =
      first && calls_.early != nullptr ? calls_.early->For(ps) : nullptr;
  tries.staged = staged != nullptr;
  tries.shares_memory = links_[ps]->shares_memory();
  tries.begun = TraceBegin();
  const auto answering = std::make_shared<std::atomic<int64_t>>(kTraceOff);
  tries.answering = answering;
  const auto answers = [answering] {
    int64_t never = kTraceOff;
    answering->compare_exchange_strong(never, TraceBegin());
  };
  OutgoingExchange request = copy_->Request(ps, options_.task, calls_.order, staged);
  // With overlap the executor may read the values while a reply comes.
  std::shared_ptr<ReplySink> sink =
      MakeExchangeSink(request.reply_bytes_max,
                       [copy = copy_, place = std::move(request.place), overlap = options_.overlap,
                        answers](uint32_t partition, uint64_t offset, uint64_t bytes) {
                         answers();
                         return overlap ? nullptr : place(partition, offset, bytes);
                       });
  auto answered = gate_.EnterOn(environment_.loop,
                                [this, ps, id = exchange_id_](absl::StatusOr<absl::Cord> reply) {
                                  if (id == exchange_id_) Answered(ps, std::move(reply));
                                });
  links_[ps]->CallInto(method::kExchange, std::move(request.parts), options_.exchange_ms,
                       std::move(sink),
                       [answers, answered = std::move(answered)](absl::StatusOr<absl::Cord> reply) {
                         answers();
                         answered(std::move(reply));
                       });
}

// Takes the values over; errors as of ParameterCopy::TakeReply.
absl::Status PsSession::Take(uint32_t ps, const absl::Cord& reply) {
  FAILPOINT("worker.exchanged");
  const PsTries& tries = calls_.tries[ps];
  const absl::StatusOr<ExchangeOutcome> outcome =
      copy_->TakeReply(ps, calls_.order, tries.sent > 1, reply,
                       [&] { return !tries.shares_memory || links_[ps]->replies_valid(); });
  TracePull(ps);
  if (!outcome.ok()) return outcome.status();
  ExchangeOutcome& all = calls_.result.outcome;
  all.next = std::min(all.next, outcome->next);
  all.applied |= outcome->applied;
  all.gap |= outcome->gap;
  all.partly |= outcome->partly;
  all.staleness = std::max(all.staleness, outcome->staleness);
  all.waits |= outcome->waits;
  all.norms_wanted |= outcome->norms_wanted;
  for (const ToldSquares& told : outcome->told) norms_.Told(told.variable, told.state);
  std::vector<uint32_t> missing;
  std::ranges::set_union(all.missing, outcome->missing, std::back_inserter(missing));
  all.missing = std::move(missing);
  return absl::OkStatus();
}

void PsSession::Answered(uint32_t ps, absl::StatusOr<absl::Cord> reply) {
  if (reply.ok() && reading_) {
    calls_.parked.emplace_back(ps, *std::move(reply));
    return;
  }
  absl::Status error = reply.status();
  TracePush(ps);
  if (reply.ok()) {
    error = Take(ps, *reply);
    if (!error.ok() && !absl::IsUnavailable(error) && !IsLimit(error)) return stale_(Text(error));
  }
  PsTries& tries = calls_.tries[ps];
  if (absl::IsNotFound(error) && tries.staged) {
    // The ps has changed nothing, and the call counts as no try.
    calls_.early->Refused(ps);
    --tries.sent;
    return Send(ps);
  }
  if (absl::IsAborted(error) || absl::IsFailedPrecondition(error)) return stale_(Text(error));
  if (absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error)) copy_->ForgetValues(ps);
  if (SendAgain(ps, error)) return;
  tries.answered = true;
  if (!error.ok() && calls_.result.error.ok()) calls_.result.error = error;
  // A ps that refuses a push whole has applied nothing; after any other error nobody knows.
  const bool pushed = calls_.order.batch.has_value();
  if (!error.ok() && pushed && !absl::IsInvalidArgument(error)) copy_->ForgetResiduals(ps);
  if (--calls_.open == 0 && !reading_) Finish();
}

bool PsSession::SendAgain(uint32_t ps, const absl::Status& error) {
  const bool again = absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error) ||
                     absl::IsResourceExhausted(error);
  if (!again) return false;
  calls_.repeated = true;
  calls_.tries[ps].problem = Text(error);
  const std::optional<int64_t> after_ms = RetryAfter(calls_.tries[ps], error);
  if (!after_ms.has_value()) return false;
  environment_.loop.PostAfter(*after_ms, gate_.Enter([this, ps, id = exchange_id_] {
    if (id == exchange_id_) Send(ps);
  }));
  return true;
}

void PsSession::TracePush(uint32_t ps) const {
  const PsTries& tries = calls_.tries[ps];
  if (!calls_.order.batch.has_value() || tries.begun == kTraceOff) return;
  TraceDone("push", tries.begun, *tries.answering, kTracks + ps);
}

void PsSession::TracePull(uint32_t ps) const {
  const PsTries& tries = calls_.tries[ps];
  if (tries.begun == kTraceOff) return;
  const bool pushed = calls_.order.batch.has_value();
  TraceEnd("pull", pushed ? tries.answering->load() : tries.begun, kTracks + ps);
}

// Returns nullopt when the tries are used up. A ps without room is alive and refuses at once, so
// counting tries would end in no time: such a ps is asked for as long as unanswered tries would
// take.
std::optional<int64_t> PsSession::RetryAfter(PsTries& tries, const absl::Status& error) const {
  if (!absl::IsResourceExhausted(error)) {
    if (tries.sent - tries.no_room < options_.tries) return kRetryMs;
    return std::nullopt;
  }
  const int64_t now_ms = environment_.loop.NowMs();
  if (tries.no_room++ == 0) tries.no_room_since_ms = now_ms;
  if (now_ms - tries.no_room_since_ms >= options_.exchange_ms * options_.tries) return std::nullopt;
  return kRetryMs << std::min<uint32_t>(tries.no_room - 1, kNoRoomDoublings);
}

void PsSession::Finish() {
  const DoneFn done = std::exchange(calls_.done, nullptr);
  const bool refused_early = calls_.early != nullptr && calls_.early->any_refused();
  if (calls_.order.batch.has_value() && (calls_.repeated || refused_early)) {
    copy_->gradients().GiveUp(calls_.order.buffer);
  }
  ExchangeOutcome& outcome = calls_.result.outcome;
  outcome.carries_norms = norms_.End(outcome.norms_wanted) && calls_.result.error.ok();
  const bool there = calls_.result.error.ok() && !calls_.result.outcome.waits;
  copy_->TakeRows(there ? std::exchange(calls_.order.incoming, nullptr) : nullptr);
  done(calls_.result);
}

}  // namespace paracord
