#include "net/own_link.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/call_table.h"

namespace paracord {

// Calls under way, and the timers of their deadlines, which the loop owns.
class OwnLink::Calls : public std::enable_shared_from_this<Calls> {
 public:
  Calls(const std::string& address, EventLoop& loop) : loop_(loop), table_(address) {}

  // Returns the number of a call to be served; 0 if already answered (closed, or too many open).
  uint64_t Begin(int64_t deadline_ms, ReplyFn done) {
    const uint64_t call = table_.Add(std::move(done), deadline_ms);
    if (call == 0) return 0;
    if (!table_.Begin(call)) {
      table_.Answer(call, absl::ResourceExhaustedError("too many calls are open"));
      return 0;
    }
    loop_.Post([self = shared_from_this(), call, deadline_ms] { self->Arm(call, deadline_ms); });
    return call;
  }

  void Reply(uint64_t call, absl::StatusOr<Parts> reply) {
    if (!table_.End(call)) return;  // already answered, or nobody waits
    if (reply.ok()) {
      absl::Cord whole;
      for (absl::Cord& part : *reply) whole.Append(std::move(part));
      table_.Answer(call, std::move(whole));
    } else {
      table_.Answer(call, reply.status());
    }
    loop_.Post([self = shared_from_this(), call] { self->Disarm(call); });
  }

  void OnCancel(uint64_t call, std::function<void()> fn) { table_.OnCancel(call, std::move(fn)); }

  void Close() {
    table_.Close();
    table_.CancelAll();
    loop_.Post([self = shared_from_this()] {
      for (const auto& [call, timer] : self->timers_) self->loop_.Cancel(timer);
      self->timers_.clear();
    });
  }

 private:
  void Arm(uint64_t call, int64_t deadline_ms) {
    if (!table_.SinkOf(call).has_value()) return;  // nobody waits any more
    timers_[call] = loop_.PostAfter(deadline_ms, [weak = weak_from_this(), call, deadline_ms] {
      if (const auto self = weak.lock()) self->Expire(call, deadline_ms);
    });
  }

  void Disarm(uint64_t call) {
    const auto found = timers_.find(call);
    if (found == timers_.end()) return;
    loop_.Cancel(found->second);
    timers_.erase(found);
  }

  void Expire(uint64_t call, int64_t deadline_ms) {
    timers_.erase(call);
    table_.Answer(
        call, absl::DeadlineExceededError(absl::StrCat("no answer within ", deadline_ms, " ms")));
    table_.Cancel(call);
  }

  EventLoop& loop_;
  CallTable table_;                                // thread-safe itself
  std::map<uint64_t, EventLoop::TimerId> timers_;  // keyed by call, used on the loop alone
};

class OwnLink::ServerSide : public ServerCall {
 public:
  ServerSide(std::shared_ptr<Calls> calls, uint64_t call) : calls_(std::move(calls)), call_(call) {}
  ~ServerSide() override {
    calls_->Reply(call_, absl::CancelledError("dropped without an answer"));
  }
  void Reply(absl::StatusOr<Parts> reply) override { calls_->Reply(call_, std::move(reply)); }
  void OnCancel(std::function<void()> fn) override { calls_->OnCancel(call_, std::move(fn)); }

 private:
  const std::shared_ptr<Calls> calls_;
  const uint64_t call_;
};

OwnLink::OwnLink(std::string address, std::shared_ptr<Service> service, EventLoop& loop,
                 LaneOf lane_of)
    : address_(std::move(address)),
      service_(std::move(service)),
      lane_of_(std::move(lane_of)),
      calls_(std::make_shared<Calls>(address_, loop)) {}

OwnLink::~OwnLink() { calls_->Close(); }

void OwnLink::Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) {
  const uint64_t number = calls_->Begin(deadline_ms, std::move(done));
  if (number == 0) return;
  absl::Cord whole;
  for (absl::Cord& part : request) whole.Append(std::move(part));
  const auto waiting = std::make_shared<std::pair<absl::Cord, std::shared_ptr<ServerCall>>>(
      std::move(whole), std::make_shared<ServerSide>(calls_, number));
  lane_of_(method).Run(
      [waiting, method = std::string(method), service = service_] {
        auto [bytes, call] = std::move(*waiting);
        service->Handle(method, std::move(bytes), std::move(call));
      },
      [] {});
}

}  // namespace paracord
