// A ps leaves without an order: when the job is done, when the coordinator stays away, and when a
// drain is asked for. Timers and exits run on the loop.
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exit_code.h"
#include "net/rpc_proto.h"
#include "server/parameter_server_impl.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

// A coordinator that gives a complete job more to do has this long to show itself.
constexpr int64_t kCompleteMs = 3000;
constexpr int64_t kCompleteAgainMs = 10000;

// A coordinator that has a use for the ps calls within this time.
constexpr int64_t kUnplacedMs = 3000;

// Within this time a ps notices that a coordinator left shortly before.
constexpr int64_t kLookAgainMs = 100;

// After this time without a call a ps logs that it waits for a coordinator.
constexpr int64_t kUncalledMs = 10000;

// A coordinator calls a ps several times in timeouts.ps_ms; a ps uncalled for kUncalledShare times
// timeouts.ps_ms has no coordinator.
constexpr int64_t kUncalledShare = 3;

}  // namespace

void ParameterServer::Impl::Start() {
  const auto answer = [weak = weak_from_this()](const ParkedExchange& exchange) -> uint64_t {
    const auto self = weak.lock();
    return self == nullptr ? 0 : self->Answer(exchange.request, exchange.call);
  };
  Executor& lane = options_.exchanges != nullptr ? *options_.exchanges : environment_.executor;
  const auto refuse = [weak = weak_from_this()](const CallPtr& call, absl::Status why) {
    const auto self = weak.lock();
    if (self == nullptr) return call->Reply(std::move(why));
    self->Refuse(call, std::move(why), /*counts=*/false);
  };
  parked_ =
      std::make_shared<ParkedExchanges>(environment_.loop, lane, log_, pinned_, answer, refuse);
  parked_->Watch();
  environment_.loop.Post(Enter([this] {
    watch_.Start(environment_.loop.NowMs());
    ArmOrphanTimer(options_.orphan_ms);
    AwaitCoordinator();
    SayIfUncalled();
  }));
}

void ParameterServer::Impl::SayIfUncalled() {
  const auto say = [this, since_ms = watch_.heard_ms()] {
    if (watch_.heard_ms() != since_ms) return;
    {
      MutexLock lock(mu_);
      if (generation_ > 0) return;
    }
    log_.Info(
        "no coordinator has called for {} s: waits for one whose cluster has this ps's address, or "
        "whose --ps has it",
        kUncalledMs / 1000);
  };
  environment_.loop.PostAfter(kUncalledMs, Enter(say));
}

// There may be no coordinator: a coordinator that died after it had ended the job told no ps.
void ParameterServer::Impl::AwaitCoordinator() {
  watch_.Heard(environment_.loop.NowMs());
  LeaveWhenComplete(kCompleteMs);
}

// Looks in DIR until a coordinator calls, because no coordinator tells an unknown ps that the job
// is done.
void ParameterServer::Impl::LeaveWhenComplete(int64_t delay_ms) {
  environment_.loop.PostAfter(delay_ms, Enter([this, since_ms = watch_.heard_ms()] {
                                if (watch_.heard_ms() != since_ms) return;
                                {
                                  MutexLock lock(mu_);
                                  if (!holds_.calls.empty()) return;
                                }
                                LeaveIfComplete(/*at_last=*/false, [this, since_ms] {
                                  watch_.FoundNoEnd();
                                  if (watch_.heard_ms() == since_ms)
                                    LeaveWhenComplete(kCompleteAgainMs);
                                });
                              }));
}

void ParameterServer::Impl::LeaveIfComplete(bool at_last, std::function<void()> otherwise) {
  const auto end = std::make_shared<std::optional<JobEnd>>();
  environment_.executor.Run(
      [end, &files = environment_.files, dir = options_.dir] { *end = FindJobEnd(files, dir); },
      Enter([this, end, at_last, heard_ms = watch_.heard_ms(), otherwise = std::move(otherwise)] {
        // A coordinator may have called while the files were read.
        if (!end->has_value() || watch_.heard_ms() != heard_ms) return otherwise();
        if (!at_last && WaitsForMore(**end)) return;
        End(static_cast<int>(ExitCode::kDone), "the newest checkpoint is complete");
      }));
}

bool ParameterServer::Impl::WaitsForMore(const JobEnd& end) {
  if (options_.stay) return false;  // a ps that stays hears a later coordinator anyway
  const std::optional<int64_t> left_ms = watch_.FoundEnd(end, environment_.loop.NowMs());
  if (!left_ms.has_value()) return false;
  log_.Info("the job is done: waits {} s for a coordinator that gives it more to do",
            *left_ms / 1000);
  LeaveWhenComplete(*left_ms);
  return true;
}

void ParameterServer::Impl::LeaveUnlessPlaced(int code, const std::string& reason) {
  const auto leave = [this, code, reason, since_ms = watch_.heard_ms()] {
    if (watch_.heard_ms() != since_ms) return;  // the coordinator will say how the job ends
    {
      MutexLock lock(mu_);
      if (!holds_.calls.empty() || content_ != nullptr || orders_.any()) return;
    }
    Exit(code, absl::StrCat(reason, ", and no coordinator has given this ps partitions"));
  };
  environment_.loop.PostAfter(kUnplacedMs, Enter(leave));
}

void ParameterServer::Impl::HeardFromCoordinator() {
  environment_.loop.Post(Enter([this] { watch_.Heard(environment_.loop.NowMs()); }));
}

void ParameterServer::Impl::ArmOrphanTimer(int64_t delay_ms) {
  environment_.loop.Cancel(orphan_timer_);
  orphan_timer_ = environment_.loop.PostAfter(delay_ms, Enter([this] { OrphanTimer(); }));
}

void ParameterServer::Impl::OrphanTimer() {
  const int64_t now_ms = environment_.loop.NowMs();
  int64_t orphan_ms = options_.orphan_ms;
  {
    MutexLock lock(mu_);
    if (content_ != nullptr) orphan_ms = timeouts_.orphan_ms;
    if (ended_.has_value() || !holds_.calls.empty() || orders_.any()) watch_.Heard(now_ms);
  }
  const int64_t left_ms = watch_.OrphanLeftMs(orphan_ms, now_ms);
  if (left_ms > 0) return ArmOrphanTimer(left_ms);
  log_.Warn("no coordinator for {} ms", now_ms - watch_.heard_ms());
  LeaveIfComplete(/*at_last=*/true, [this, heard_ms = watch_.heard_ms()] {
    if (watch_.heard_ms() != heard_ms) return ArmOrphanTimer(0);
    Exit(static_cast<int>(ExitCode::kPeerLost), "no coordinator");
  });
}

void ParameterServer::Impl::Drain() {
  bool alone = false;
  std::optional<int> ended;
  {
    MutexLock lock(mu_);
    if (draining_) return;
    draining_ = true;
    ended = ended_;
    // Without contents or a coordinator that could take a checkpoint, there is nothing to wait for.
    alone = holds_.calls.empty() || content_ == nullptr;
  }
  if (ended.has_value()) return Exit(*ended, "told to leave after the job's end");
  environment_.loop.PostAfter(alone ? 0 : kLookAgainMs, Enter([this] { AskForCheckpoint(); }));
}

void ParameterServer::Impl::AskForCheckpoint() {
  Answers answers;
  int64_t drain_ms = 0;
  {
    MutexLock lock(mu_);
    checkpoint_asked_ = "";
    if (!holds_.calls.empty() && content_ != nullptr) {
      drain_ms = std::max<int64_t>(0, timeouts_.drain_ms - kLookAgainMs);
    }
    PsHoldReply reply;
    reply.set_draining(true);
    if (!holds_.calls.empty()) checkpoint_asked_ = coordinator_;
    for (auto& [id, call] : holds_.calls)
      answers.calls.emplace_back(std::move(call), ToParts(reply));
    holds_.calls.clear();
  }
  Give(answers);
  log_.Info("draining, for at most {} ms", drain_ms);
  environment_.loop.PostAfter(
      drain_ms, Enter([this] { Exit(static_cast<int>(ExitCode::kDrained), "drained"); }));
}

void ParameterServer::Impl::End(int code, const std::string& reason) {
  if (!options_.stay) return Exit(code, reason);
  environment_.loop.Post(Enter([this, code, reason] { LetGo(code, reason); }));
}

void ParameterServer::Impl::LetGo(int code, const std::string& reason) {
  Answers answers;
  std::deque<ParkedExchange> parked;  // destroyed after the lock is released
  std::shared_ptr<const PartitionSet> content;
  std::shared_ptr<PreparedLoad> prepared;
  bool draining = false;
  {
    MutexLock lock(mu_);
    if (std::exchange(ended_, code).has_value()) return;
    draining = draining_;
    parked = VoidAll(Leaving(), answers);
    content = std::exchange(content_, nullptr);
    prepared = std::exchange(orders_.preparing().load, nullptr);
    orders_.preparing().prepared.clear();
    orders_.ForgetWritten();
  }
  staged_.Clear();
  waiting_->EndAll(Leaving());
  Give(answers);
  parked.clear();
  content.reset();
  prepared.reset();
  memory_->HoldVariables(0, 0).IgnoreError();
  if (draining) return Exit(code, reason);
  malloc_trim(0);  // the process lives on, so freed memory is given back
  log_.Info("the job has ended with {} ({}): holds nothing any more, and stays until SIGTERM", code,
            reason);
}

HealthState ParameterServer::Impl::Health() const {
  MutexLock lock(mu_);
  if (ended_.has_value())
    return {true, absl::StrCat("has no job: the last one ended with ", *ended_)};
  if (draining_) return {false, "is draining"};
  if (orders_.loading()) return {false, "is loading its partitions"};
  if (content_ == nullptr) return {false, "holds nothing yet"};
  std::string holds = absl::StrCat("holds ", content_->partitions.size(), " partitions");
  // Another process may have taken the place of this ps, and no message says so.
  const int64_t uncalled_ms = environment_.loop.NowMs() - watch_.heard_ms();
  if (uncalled_ms <= kUncalledShare * timeouts_.ps_ms) return {true, std::move(holds)};
  return {false, absl::StrCat(holds, ", and no coordinator has called for ", uncalled_ms / 1000,
                              " s: another process may have its place")};
}

void ParameterServer::Impl::Exit(int code, std::string reason) {
  environment_.loop.Post(Enter([this, code, reason = std::move(reason)] {
    if (std::exchange(exited_, true)) return;
    log_.Info("leaving with {}: {}", code, reason);
    Answers answers;
    {
      // Tells the coordinator, which would otherwise notice the exit only by silence.
      MutexLock lock(mu_);
      const absl::Status left = absl::UnavailableError("it has left: " + reason);
      for (auto& [id, hold] : holds_.calls) answers.calls.emplace_back(std::move(hold), left);
      holds_.calls.clear();
    }
    Give(answers);
    exit_(code, reason);
  }));
}

}  // namespace paracord
