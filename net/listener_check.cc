#include "net/listener_check.h"

#include <utility>

#include "net/health.h"

namespace paracord {

ListenerCheck::ListenerCheck(Network& network, EventLoop& loop, std::string address,
                             std::function<void()> deaf, ListenerCheckOptions options)
    : network_(network),
      loop_(loop),
      address_(std::move(address)),
      deaf_(std::move(deaf)),
      options_(options) {
  loop_.PostAfter(options_.period_ms, gate_.Enter([this] { Check(); }));
}

void ListenerCheck::Check() {
  link_ = network_.Dial(address_);
  // Health is answered even by a daemon that waits for storage and refuses its job's calls.
  link_->Call(kHealthMethod, {}, options_.deadline_ms,
              gate_.EnterOn(loop_, [this](const absl::StatusOr<absl::Cord>& reply) {
                Answered(reply.status());
              }));
}

void ListenerCheck::Answered(const absl::Status& status) {
  link_.reset();
  const bool silent = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  failures_ = silent ? failures_ + 1 : 0;
  if (failures_ >= options_.failures) return deaf_();
  loop_.PostAfter(options_.period_ms, gate_.Enter([this] { Check(); }));
}

}  // namespace paracord
