#include "net/name_lookup.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/try_thread.h"

namespace paracord {
namespace {

std::string HostOf(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  const bool brackets = host.starts_with('[') && host.ends_with(']');
  return brackets ? host.substr(1, host.size() - 2) : host;
}

std::string Unanswered(const std::string& address) {
  return absl::StrCat("the name ", HostOf(address),
                      " has not resolved so far: see whether its name server answers");
}

}  // namespace

absl::StatusOr<std::vector<SocketAddress>> ResolveAddress(const std::string& address, int flags) {
  const size_t colon = address.rfind(':');
  const std::string host = HostOf(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const char* const port = colon == std::string::npos ? "" : address.c_str() + colon + 1;
  const int failed = ::getaddrinfo(host.c_str(), port, &hints, &found);
  if (failed != 0) {
    const char* const why = failed == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(failed);
    return absl::InvalidArgumentError(absl::StrCat("the name ", host, " does not resolve (", why,
                                                   "): correct it, or enter it into DNS or "
                                                   "/etc/hosts"));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress& address_of_one = addresses.emplace_back();
    std::memcpy(&address_of_one.at, one->ai_addr, one->ai_addrlen);
    address_of_one.size = one->ai_addrlen;
  }
  ::freeaddrinfo(found);
  return addresses;
}

bool HasName(const std::string& address) {
  return !address.starts_with("unix:") && !ResolveAddress(address, AI_NUMERICHOST).ok();
}

struct NameLookup::State {
  Mutex mu;
  std::condition_variable_any answered;
  bool asking ABSL_GUARDED_BY(mu) = false;
  std::optional<absl::StatusOr<std::vector<SocketAddress>>> last ABSL_GUARDED_BY(mu);
};

absl::StatusOr<std::vector<SocketAddress>> NameLookup::AskSystem(const std::string& address) {
  return ResolveAddress(address, 0);
}

NameLookup::NameLookup(std::string address, AskFn ask)
    : address_(std::move(address)), ask_(std::move(ask)), state_(std::make_shared<State>()) {}

void NameLookup::Look() {
  MutexLock lock(state_->mu);
  if (state_->asking) return;
  std::optional<std::thread> thread = TryThread([state = state_, ask = ask_, address = address_] {
    absl::StatusOr<std::vector<SocketAddress>> answer = ask(address);
    MutexLock answered(state->mu);
    state->asking = false;
    state->last = std::move(answer);
    state->answered.notify_all();
  });
  if (thread.has_value()) {
    state_->asking = true;
    state_->last.reset();
    thread->detach();
  } else {
    state_->last = absl::UnavailableError("no thread is left to look up its name");
  }
}

absl::StatusOr<std::vector<SocketAddress>> NameLookup::Find(int64_t patience_ms) {
  if (absl::StatusOr<std::vector<SocketAddress>> number = ResolveAddress(address_, AI_NUMERICHOST);
      number.ok()) {
    return number;
  }
  Look();
  std::unique_lock<std::mutex> lock(state_->mu.native());
  const auto over = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !state_->asking; };
  const bool in_time =
      state_->answered.wait_for(lock, std::chrono::milliseconds(patience_ms), over);
  const auto last = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return *state_->last; };
  if (!in_time) return absl::UnavailableError(Unanswered(address_));
  absl::StatusOr<std::vector<SocketAddress>> found = last();
  if (!found.ok()) return absl::UnavailableError(found.status().message());
  return found;
}

std::string NameLookup::Problem() const {
  MutexLock lock(state_->mu);
  if (state_->asking) return Unanswered(address_);
  if (!state_->last.has_value() || state_->last->ok()) return "";
  return std::string(state_->last->status().message());
}

}  // namespace paracord
