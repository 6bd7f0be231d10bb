// A service and a link for tests of networks.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/rpc.h"

namespace paracord {

// Answers with the request. "/Keep" also keeps the request, "/Park" does not answer, "/Wait" does
// not answer but releases the request, "/Offered" answers with the argument of Offer.
class Echo : public Service {
 public:
  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override {
    MutexLock lock(mu_);
    ++handled;
    if (method == "/Refuse") return call->Reply(absl::AbortedError("not this one"));
    if (method == "/Wait") {
      request.Clear();
      call->ReleaseRequest();
    }
    if (method == "/Park" || method == "/Wait") {
      call->OnCancel([this] { ++cancelled; });
      parked_.push_back(std::move(call));
      return;
    }
    if (method == "/Offered") return call->Reply(Parts{offered_});
    if (method == "/Keep") kept_.push_back(request);
    call->Reply(Parts{std::move(request)});
  }
  void Forget() {
    std::vector<absl::Cord> kept;
    MutexLock lock(mu_);
    kept.swap(kept_);
  }
  void Offer(absl::Cord bytes) {
    MutexLock lock(mu_);
    offered_.swap(bytes);
  }
  std::atomic<int> handled{0};
  std::atomic<int> cancelled{0};

 private:
  Mutex mu_;
  std::vector<absl::Cord> kept_;
  absl::Cord offered_;
  std::vector<std::shared_ptr<ServerCall>> parked_;
};

// A link that fails and counts its calls.
class RefusingLink : public Link {
 public:
  explicit RefusingLink(std::string address) : address_(std::move(address)) {}
  void Call(std::string_view, Parts, int64_t, ReplyFn done) override {
    done(absl::UnimplementedError("beneath"));
  }
  const std::string& address() const override { return address_; }

 private:
  const std::string address_;
};

// Parts{part} would share memory with a temporary. abseil orders this thread's free after the other
// thread's release, but TSan does not see the order.
inline Parts OnePart(std::string_view text) {
  Parts parts;
  parts.emplace_back(absl::string_view(text.data(), text.size()));
  return parts;
}

inline std::future<absl::StatusOr<absl::Cord>> AskInto(Link& link, std::string_view method,
                                                       Parts request,
                                                       std::shared_ptr<ReplySink> sink,
                                                       int64_t deadline_ms = 5000) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<absl::Cord>>>();
  auto future = promise->get_future();
  link.CallInto(
      method, std::move(request), deadline_ms, std::move(sink),
      [promise](absl::StatusOr<absl::Cord> reply) { promise->set_value(std::move(reply)); });
  return future;
}

inline std::future<absl::StatusOr<absl::Cord>> AskLater(Link& link, std::string_view method,
                                                        Parts request, int64_t deadline_ms = 5000) {
  return AskInto(link, method, std::move(request), nullptr, deadline_ms);
}

inline absl::StatusOr<absl::Cord> Ask(Link& link, std::string_view method, Parts request,
                                      int64_t deadline_ms = 5000) {
  return AskLater(link, method, std::move(request), deadline_ms).get();
}

inline bool Soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 30000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

}  // namespace paracord
