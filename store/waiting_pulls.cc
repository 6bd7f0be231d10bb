#include "store/waiting_pulls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"

namespace paracord {
namespace {

// The approximate memory of a call that waits for its pull's answer.
constexpr uint64_t kCallBytes = 1024;

absl::Status Overtaken() {
  return absl::AbortedError("a newer generation began while the pull waited");
}

}  // namespace

struct WaitingPulls::Pull {
  Pull(const PartitionSet& c, const WantedState& wanted, const PushFence& f, PendingPull p, Reply r,
       MemoryShare& share)
      : content(c),
        state(wanted.state),
        squares(wanted.squares),
        fence(f),
        pull(std::move(p)),
        reply(std::move(r)),
        memory(share) {}

  // Synchronous training has exactly the values of the state, and bounded staleness those of now.
  absl::StatusOr<DecodedReply> Answer() {
    TellSquares();
    return pull.Answer(content.sync ? Partition::AtState(state) : std::nullopt);
  }

  // Norms are carried only where other stores have partitions that are not here.
  bool tells_norms() const { return content.clip.has_value() && !content.clip->alone; }
  void TellSquares() {
    if (tells_norms() || (squares && content.clip.has_value())) {
      pull.TellSquares(fence.generation());
    }
  }

  const PartitionSet& content;
  const uint64_t state;
  const bool squares;  // to be told wherever there are any
  const PushFence fence;
  PendingPull pull;  // owned by the thread that removes the pull, except wants()
  const Reply reply;
  int64_t until_ms = 0;
  MemoryReservation memory;
};

// Caches what partitions lack, for all pulls of a state.
class WaitingPulls::Gates {
 public:
  // The missing lanes of the first wanted partition that lacks lanes, and whether any partition
  // waits for norms; empty: all have the state. OUT_OF_RANGE: a partition is past the state.
  Lack Missing(const Pull& pull) {
    const uint64_t state = pull.state;
    Partition::Lack all;
    for (const CheckedWant& wanted : pull.pull.wants()) {
      const Partition* const partition = wanted.partition;
      if (!partition->facts().trained) continue;
      auto found = lack_.find({partition, state});
      if (found == lack_.end()) {
        found =
            lack_.emplace(std::pair(partition, state), partition->LackOf(pull.content.plan, state))
                .first;
      }
      const Lack& lack = found->second;
      if (!lack.ok()) return lack.status();
      if (all.lanes.empty()) all.lanes = lack->lanes;
      all.norms = all.norms || lack->norms;
      if (all.any() && !pull.content.sync) break;
    }
    return all;
  }

 private:
  std::map<std::pair<const Partition*, uint64_t>, Lack> lack_;
};

bool WaitingPulls::Waits(const Pull& pull, const Lack& lack) {
  return lack.ok() && (!lack->lanes.empty() || (lack->norms && !pull.tells_norms()));
}

DecodedReply WaitingPulls::AnswerWithout(Pull& pull, Partition::Lack lack) {
  pull.TellSquares();
  lack.norms = lack.norms && pull.tells_norms();
  return pull.pull.AnswerWithout(lack);
}

WaitingPulls::WaitingPulls(EventLoop& loop, std::shared_ptr<MemoryShare> memory)
    : loop_(loop), memory_(std::move(memory)) {}

// Answers a pull that has waited.
void WaitingPulls::Answer(Pull& pull, const Lack& lack) {
  if (pull.fence.over()) return pull.reply(Overtaken());
  if (!lack.ok()) return pull.reply(lack.status());
  // Without room for copies of rows, the worker asks again; the next exchange waits for room.
  if (lack->any() || !pull.pull.Resume()) return pull.reply(AnswerWithout(pull, *lack));
  pull.reply(pull.Answer());
}

WaitingPulls::Ticket WaitingPulls::Wait(const PartitionSet& content, const WantedState& wanted,
                                        const PushFence& fence, PendingPull pending,
                                        const Reply& reply, const WaitsFn& waits) {
  const auto pull =
      std::make_shared<Pull>(content, wanted, fence, std::move(pending), reply, *memory_);
  Lack lack = Gates().Missing(*pull);
  if (lack.ok() && !lack->any()) {
    reply(pull->Answer());
    return {};
  }
  if (!Waits(*pull, lack) || wanted.wait_ms <= 0) {
    lack.ok() ? reply(AnswerWithout(*pull, *lack)) : reply(lack.status());
    return {};
  }
  pull->pull.Suspend();
  if (waits) waits();
  pull->until_ms = loop_.NowMs() + std::min(wanted.wait_ms, kWaitMsMax);
  const absl::StatusOr<Ticket> ticket = Add(wanted.state, pull);
  if (!ticket.ok()) {
    const bool full = absl::IsResourceExhausted(ticket.status());
    if (full && pull->pull.pushed()) {
      reply(AnswerWithout(*pull, *lack));
    } else {
      reply(ticket.status());
    }
    return {};
  }
  // A push just before the pull was added did not see it, so look again.
  if (!fence.over() && Waits(*pull, lack = Gates().Missing(*pull))) return *ticket;
  if (Remove({ticket->state, ticket->id}) != nullptr) Answer(*pull, lack);
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

// The partition's lock orders this push and a pull's look at the ledger: a pull that did not see
// the push was counted in size_ before.
void WaitingPulls::Entered(const PartitionSet& content, const PlanBatch& batch) {
  const States states = StatesAfter(content.plan, batch);
  AnswerThose(content, states.first, states.last);
}

void WaitingPulls::AnswerThose(const PartitionSet& content, uint64_t first, uint64_t last) {
  if (size() == 0) return;
  std::vector<std::pair<Key, PullPtr>> looked;
  {
    MutexLock lock(mu_);
    for (auto it = pulls_.lower_bound({first, 0}); it != pulls_.end() && it->first.first <= last;
         ++it) {
      if (&it->second->content == &content) looked.push_back(*it);
    }
  }
  Gates gates;
  for (const auto& [key, pull] : looked) {
    const Lack lack = gates.Missing(*pull);
    if (!Waits(*pull, lack) && Remove(key) != nullptr) Answer(*pull, lack);
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
  Gates gates;
  for (const PullPtr& pull : overdue) {
    Lack lack = gates.Missing(*pull);
    if (pull->fence.over()) lack = Overtaken();
    // Should nothing be missing any more, it comes again: the loop reads no values.
    pull->reply(lack.ok() ? AnswerWithout(*pull, *lack)
                          : absl::StatusOr<DecodedReply>(lack.status()));
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

void WaitingPulls::EndOvertaken(const absl::Status& why) {
  std::vector<PullPtr> ended;
  {
    MutexLock lock(mu_);
    for (auto it = pulls_.begin(); it != pulls_.end();) {
      if (it->second->fence.over()) {
        ended.push_back(std::move(it->second));
        it = pulls_.erase(it);
      } else {
        ++it;
      }
    }
    size_ = pulls_.size();
  }
  for (const PullPtr& pull : ended) pull->reply(why);
}

void WaitingPulls::Close(const absl::Status& why) {
  {
    MutexLock lock(mu_);
    closed_ = why;
  }
  EndAll(why);
}

}  // namespace paracord
