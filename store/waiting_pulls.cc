#include "store/waiting_pulls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"

namespace paracord {
namespace {

// What is kept of the call that a pull answers, about.
constexpr uint64_t kCallBytes = 1024;

absl::Status Overtaken() {
  return absl::AbortedError("a newer generation began while the pull waited");
}

}  // namespace

struct WaitingPulls::Pull {
  Pull(const Content& c, const PushFence& f, PendingPull p, Reply r, MemoryShare& share)
      : content(c), fence(f), pull(std::move(p)), reply(std::move(r)), memory(share) {}

  const Content& content;
  const PushFence fence;
  PendingPull pull;  // of whoever has removed it, but for its wants
  const Reply reply;
  int64_t until_ms = 0;
  MemoryReservation memory;
  std::vector<uint32_t> missing;  // guarded by mu_ while it waits
};

// What partitions lack, looked up once for all pulls that want it.
class WaitingPulls::Gates {
 public:
  // What the first partition that is wanted and lacks something lacks; none: all have the state.
  std::vector<uint32_t> Missing(const Pull& pull, uint64_t state) {
    for (const CheckedWant& wanted : pull.pull.wants()) {
      const Partition* const partition = wanted.partition;
      if (!partition->facts().trained) continue;
      const auto [it, fresh] = lack_.try_emplace({partition, state});
      if (fresh) it->second = partition->MissingLanes(pull.content.plan, state);
      if (!it->second.empty()) return it->second;
    }
    return {};
  }

 private:
  std::map<std::pair<const Partition*, uint64_t>, std::vector<uint32_t>> lack_;
};

WaitingPulls::WaitingPulls(EventLoop& loop, std::shared_ptr<MemoryShare> memory)
    : loop_(loop), memory_(std::move(memory)) {}

void WaitingPulls::Answer(Pull& pull) {
  if (pull.fence.over()) return pull.reply(Overtaken());
  // Where there is no room for copies of rows it comes again, and waits for that elsewhere.
  if (!pull.pull.Resume()) return pull.reply(pull.pull.AnswerWithout({}));
  pull.reply(pull.pull.Answer());
}

WaitingPulls::Ticket WaitingPulls::Wait(const Content& content, const WantedState& wanted,
                                        const PushFence& fence, PendingPull pending,
                                        const Reply& reply) {
  const auto pull = std::make_shared<Pull>(content, fence, std::move(pending), reply, *memory_);
  pull->missing = Gates().Missing(*pull, wanted.state);
  if (pull->missing.empty()) {
    reply(pull->pull.Answer());
    return {};
  }
  if (wanted.wait_ms <= 0) {
    reply(pull->pull.AnswerWithout(pull->missing));
    return {};
  }
  pull->pull.Suspend();
  pull->until_ms = loop_.NowMs() + std::min(wanted.wait_ms, kWaitMsMax);
  const absl::StatusOr<Ticket> ticket = Add(wanted.state, pull);
  if (!ticket.ok()) {
    reply(ticket.status());
    return {};
  }
  // A push that came before the pull was among those that wait has not seen it.
  if (!fence.over() && !Gates().Missing(*pull, wanted.state).empty()) return *ticket;
  if (Remove({ticket->state, ticket->id}) == nullptr) return {};
  Answer(*pull);
  return {};
}

absl::StatusOr<WaitingPulls::Ticket> WaitingPulls::Add(uint64_t state, const PullPtr& pull) {
  const uint64_t bytes = sizeof(Pull) + kCallBytes + pull->pull.bytes();
  MutexLock lock(mu_);
  if (!closed_.ok()) return closed_;
  if (pulls_.size() >= kPullsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kPullsMax, " pulls wait here for other workers, and no more may"));
  }
  if (!pull->memory.More(bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a pull that waits for other workers takes ", HumanBytes(bytes),
                     ", which requests have not left of the ", HumanBytes(memory_->bytes_max()),
                     " that they may take (by --memory-limit)"));
  }
  if (pull->until_ms < next_ms_) {
    next_ms_ = pull->until_ms;
    loop_.Post(Enter([this] { AnswerOverdue(); }));
  }
  const Ticket ticket{state, ++last_id_};
  pulls_[{state, ticket.id}] = pull;
  size_ = pulls_.size();
  return ticket;
}

WaitingPulls::PullPtr WaitingPulls::Remove(const Key& key) {
  MutexLock lock(mu_);
  const auto it = pulls_.find(key);
  if (it == pulls_.end()) return nullptr;
  PullPtr pull = std::move(it->second);
  pulls_.erase(it);
  size_ = pulls_.size();
  return pull;
}

// The partition's lock has ordered this push and the look of a pull at its ledger: a pull that has
// not seen the push was counted in size_ before.
void WaitingPulls::Entered(const Content& content, const PlanBatch& batch) {
  if (size() == 0) return;
  const States states = StatesAfter(content.plan, batch);
  std::vector<std::pair<Key, PullPtr>> looked;
  {
    MutexLock lock(mu_);
    for (auto it = pulls_.lower_bound({states.first, 0});
         it != pulls_.end() && it->first.first <= states.last; ++it) {
      if (&it->second->content == &content) looked.push_back(*it);
    }
  }
  Gates gates;
  for (const auto& [key, pull] : looked) {
    std::vector<uint32_t> missing = gates.Missing(*pull, key.first);
    if (missing.empty()) {
      if (Remove(key) != nullptr) Answer(*pull);
      continue;
    }
    MutexLock lock(mu_);
    if (pulls_.contains(key)) pull->missing = std::move(missing);
  }
}

void WaitingPulls::AnswerOverdue() {
  const int64_t now_ms = loop_.NowMs();
  std::vector<PullPtr> overdue;
  int64_t next_ms = INT64_MAX;
  {
    MutexLock lock(mu_);
    for (auto it = pulls_.begin(); it != pulls_.end();) {
      if (it->second->until_ms <= now_ms) {
        overdue.push_back(std::move(it->second));
        it = pulls_.erase(it);
      } else {
        next_ms = std::min(next_ms, it->second->until_ms);
        ++it;
      }
    }
    size_ = pulls_.size();
    next_ms_ = next_ms;
  }
  loop_.Cancel(timer_);
  if (next_ms != INT64_MAX) {
    timer_ = loop_.PostAfter(next_ms - now_ms, Enter([this] { AnswerOverdue(); }));
  }
  for (const PullPtr& pull : overdue) {
    if (pull->fence.over()) {
      pull->reply(Overtaken());
    } else {
      pull->reply(pull->pull.AnswerWithout(pull->missing));
    }
  }
}

void WaitingPulls::Drop(const Ticket& ticket) { Remove({ticket.state, ticket.id}); }

void WaitingPulls::EndAll(const absl::Status& why) {
  std::map<Key, PullPtr> ended;  // let go of without the lock
  {
    MutexLock lock(mu_);
    ended.swap(pulls_);
    size_ = 0;
  }
  for (const auto& [key, pull] : ended) pull->reply(why);
}

void WaitingPulls::Close(const absl::Status& why) {
  {
    MutexLock lock(mu_);
    closed_ = why;
  }
  EndAll(why);
}

}  // namespace paracord
