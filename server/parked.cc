#include "server/parked.h"

#include <algorithm>
#include <utility>

#include "common/human_bytes.h"
#include "config/job.h"

namespace paracord {
namespace {

// In deadlines of an exchange. A worker that does not read is cut off after a single deadline, but
// a foreign client may have no deadline and must not stop the workers for ever. A worker gives its
// lease back after three deadlines.
constexpr int64_t kPatienceDeadlines = 2;

constexpr char kBoundedBy[] = "the less of --pinned-mb and its share of --memory-limit";
constexpr size_t kParkedMax = 1024;
constexpr int64_t kWarnFromMs = 1000;
constexpr int64_t kWarnAgainMs = 60000;

// Allows a warning a minute; `warned_ms`: the time of the last warning.
bool MayWarn(int64_t now_ms, std::optional<int64_t>& warned_ms) {
  if (warned_ms.has_value() && now_ms - *warned_ms < kWarnAgainMs) return false;
  warned_ms = now_ms;
  return true;
}

}  // namespace

ParkedExchanges::ParkedExchanges(EventLoop& loop, Executor& lane, Logger log,
                                 std::shared_ptr<PinnedBytes> pinned, AnswerFn answer,
                                 RefuseFn refuse)
    : loop_(loop),
      lane_(lane),
      log_(std::move(log)),
      pinned_(std::move(pinned)),
      answer_(std::move(answer)),
      refuse_(std::move(refuse)),
      deadline_ms_(TimeoutsSpec().ps_ms) {}

void ParkedExchanges::Watch() {
  pinned_->Watch(Enter([this] { PostResume(); }));
}

size_t ParkedExchanges::size() const {
  MutexLock lock(mu_);
  return parked_.size();
}

std::deque<ParkedExchange> ParkedExchanges::TakeAll() {
  MutexLock lock(mu_);
  return std::exchange(parked_, {});
}

void ParkedExchanges::Close(absl::Status why) {
  MutexLock lock(mu_);
  closed_ = std::move(why);
}

void ParkedExchanges::Park(const absl::Cord& request, const std::shared_ptr<ServerCall>& call,
                           uint64_t needed) {
  uint64_t id = 0;
  absl::Status refused;
  {
    MutexLock lock(mu_);
    if (!closed_.ok()) {
      refused = closed_;
    } else if (parked_.size() >= kParkedMax) {
      refused = absl::ResourceExhaustedError("too many exchanges wait for slow readers");
    } else {
      id = ++last_id_;
      parked_.push_back({id, request, call, needed});
    }
  }
  if (!refused.ok()) return refuse_(call, std::move(refused));
  // Without the lock, because OnCancel may call at once.
  call->OnCancel(Enter([this, id] {
    ParkedExchange dropped;  // destroyed after the lock is released
    MutexLock lock(mu_);
    const auto it = std::find_if(parked_.begin(), parked_.end(),
                                 [id](const ParkedExchange& parked) { return parked.id == id; });
    if (it == parked_.end()) return;
    dropped = std::move(*it);
    parked_.erase(it);
  }));
  PostResume();  // for memory freed meanwhile, and for the timer
}

void ParkedExchanges::PostResume() {
  loop_.Post(Enter([this] { Resume(); }));
}

std::optional<uint64_t> ParkedExchanges::NeededByNext() const {
  MutexLock lock(mu_);
  if (parked_.empty()) return std::nullopt;
  return parked_.front().needed;
}

// Resumes a single exchange at a time. Exchanges that arrive meanwhile do not queue up behind,
// since many workers would then stay on this single lane for ever.
void ParkedExchanges::Resume() {
  if (answering_) return;
  ParkedExchange next;
  const std::optional<uint64_t> needed = NeededByNext();
  if (needed.has_value() && pinned_->Wait(*needed)) {
    if (patience_timer_ != 0) return;
    const int64_t patience_ms = kPatienceDeadlines * deadline_ms_;
    waiting_since_ms_ = loop_.NowMs();
    patience_timer_ =
        loop_.PostAfter(patience_ms, Enter([this, patience_ms] { LosePatience(patience_ms); }));
    return;
  }
  if (patience_timer_ != 0) {
    loop_.Cancel(patience_timer_);
    patience_timer_ = 0;
    const int64_t now_ms = loop_.NowMs();
    if (now_ms - waiting_since_ms_ >= kWarnFromMs && MayWarn(now_ms, warned_of_wait_ms_)) {
      log_.Warn(
          "exchanges waited {} ms for readers that held more than {} of replaced or converted "
          "values ({})",
          now_ms - waiting_since_ms_, HumanBytes(pinned_->bytes_max()), kBoundedBy);
    }
  }
  {
    MutexLock lock(mu_);
    if (parked_.empty()) return;
    next = std::move(parked_.front());
    parked_.pop_front();
  }
  Answer(std::move(next));
}

void ParkedExchanges::Answer(ParkedExchange exchange) {
  answering_ = true;
  const auto of = std::make_shared<ParkedExchange>(std::move(exchange));
  lane_.Run(Enter([this, of] { of->needed = answer_(*of); }), Enter([this, of] {
              answering_ = false;
              absl::Status closed;
              if (of->needed > 0) {  // another exchange took the room
                MutexLock lock(mu_);
                closed = closed_;
                if (closed.ok()) parked_.push_front(std::move(*of));
              }
              if (!closed.ok()) refuse_(of->call, std::move(closed));
              Resume();
            }));
}

// The time counts from the first exchange that waited, whose caller may have gone and come again.
void ParkedExchanges::LosePatience(int64_t waited_ms) {
  patience_timer_ = 0;
  const std::optional<uint64_t> needed = NeededByNext();
  if (needed.has_value() && !pinned_->Fits(*needed)) {
    if (MayWarn(loop_.NowMs(), warned_ms_)) {
      log_.Warn(
          "readers hold {} of replaced or converted values for {} ms, and may hold {} ({}): "
          "exchanges wait for them no longer",
          HumanBytes(pinned_->bytes()), waited_ms, HumanBytes(pinned_->bytes_max()), kBoundedBy);
    }
    pinned_->RaiseLimit();
  }
  Resume();
}

}  // namespace paracord
