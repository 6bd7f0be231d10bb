// The calling side of gRPC: links and their calls.
#include <grpcpp/alarm.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "config/cluster.h"
#include "net/dial_probe.h"
#include "net/grpc/convert.h"
#include "net/grpc/network.h"
#include "net/grpc/peer_check.h"
#include "net/name_lookup.h"
#include "net/stream_link.h"
#include "security/call_rights.h"

namespace paracord {
namespace {

// requests of a coordinator's size, or of a worker without a push
constexpr uint64_t kSmallBytes = 64 << 10;

absl::Status PlainTextOut(const std::string& address) {
  return absl::FailedPreconditionError(
      absl::StrCat(address,
                   " is on another machine, and there plain text is for everybody to read and "
                   "forge: give --tls-cert, --tls-key and --tls-ca, or give --insecure"));
}

constexpr char kNowhere[] = "unix:/nonexistent";

// Without a connection for this long, a probe looks for the reason.
constexpr int64_t kDoubtMs = 1000;

// The channel of a link. Calls in flight share the channel, because the link may replace it.
struct Way {
  Way(const std::string& address, const grpc::ChannelArguments& arguments, PeerCheck expected)
      : check(std::move(expected)),
        channel(grpc::CreateCustomChannel(
            address.starts_with("unix:") ? address : absl::StrCat("dns:///", address),
            check.ForGrpc(), arguments)),
        stub(channel) {}
  bool connected() const { return channel->GetState(false) == GRPC_CHANNEL_READY; }

  const PeerCheck check;
  const std::shared_ptr<grpc::Channel> channel;
  grpc::GenericStub stub;
  std::atomic<bool> nameless = false;  // the last lookup did not resolve the name
};

// Calls in flight. A link cancels them and waits for their end.
class Calls {
 public:
  void Add(grpc::ClientContext* context) {
    MutexLock lock(mu_);
    contexts_.insert(context);
  }
  void Remove(grpc::ClientContext* context) {
    MutexLock lock(mu_);
    contexts_.erase(context);
    if (contexts_.empty()) none_.notify_all();
  }
  void CancelAndWait() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mu_.native());
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
    while (!contexts_.empty()) none_.wait(lock);
  }

 private:
  Mutex mu_;
  std::condition_variable_any none_;
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mu_);
};

// A call: writes all parts, then reads all parts. Deletes itself when gRPC is done.
class ClientCall : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // `name` is nullptr if the address has no name.
  ClientCall(std::shared_ptr<Way> way, std::shared_ptr<NameLookup> name,
             std::shared_ptr<DialProbe> probe, Calls& calls, std::string_view method, Parts request,
             int64_t deadline_ms, const std::string& address, const absl::Status& refused,
             ReplyFn done)
      : way_(std::move(way)),
        name_(std::move(name)),
        probe_(std::move(probe)),
        calls_(calls),
        request_(CutParts(std::move(request))),
        deadline_ms_(deadline_ms),
        address_(address),
        refused_(refused),
        done_(std::move(done)) {
    // A call waits for the connection: fail-fast calls would come back on gRPC's 5 s grid only.
    context_.set_wait_for_ready(true);
    const auto now = std::chrono::system_clock::now();
    context_.set_deadline(now + std::chrono::milliseconds(deadline_ms));
    if (const std::string token = way_->check.token(); !token.empty()) {
      context_.AddMetadata(kTokenKey, kTokenPrefix + token);
    }
    size_t bytes = 0;
    for (const absl::Cord& part : request_) bytes += part.size();
    context_.AddMetadata(kBytesKey, absl::StrCat(bytes));
    if (!refused_.ok()) context_.TryCancel();
    calls_.Add(&context_);
    if (refused_.ok() && !way_->connected()) {
      doubt_.emplace().Set(now + std::chrono::milliseconds(std::min(deadline_ms / 2, kDoubtMs)),
                           [way = way_, name = name_, probe = probe_](bool waited) {
                             if (!waited || way->connected()) return;
                             if (name != nullptr) name->Look();
                             probe->Look();
                           });
    }
    way_->stub.PrepareBidiStreamingCall(&context_, std::string(method), {}, this);
    WriteNext();
    StartRead(&received_);
    StartCall();
  }

 private:
  void WriteNext() {
    sent_ = ToByteBuffer(request_[next_part_]);
    request_[next_part_].Clear();
    ++next_part_;
    if (next_part_ == request_.size()) {
      StartWriteLast(&sent_, grpc::WriteOptions());
    } else {
      StartWrite(&sent_);
    }
  }

  void OnWriteDone(bool ok) override {
    if (ok && next_part_ < request_.size()) WriteNext();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    reply_.Append(ToCord(received_));
    received_.Clear();
    StartRead(&received_);
  }

  void OnDone(const grpc::Status& status) override {
    if (!refused_.ok()) {
      done_(refused_);
    } else if (status.ok()) {
      done_(std::move(reply_));
    } else {
      const absl::Status error = FromGrpc(status);
      done_(absl::Status(error.code(), WhatHappened(error)));
    }
    done_ = nullptr;
    doubt_.reset();
    calls_.Remove(&context_);
    delete this;
  }

  // Explains a call that waited in vain, naming the address once: gRPC's own message lacks the
  // cause.
  std::string WhatHappened(const absl::Status& error) const {
    const std::string at = address_ + ": ";
    if (!absl::IsDeadlineExceeded(error) || error.message() != "Deadline Exceeded") {
      return at + std::string(error.message());
    }
    if (way_->connected()) return absl::StrCat(at, "no answer within ", deadline_ms_, " ms");
    std::string why = name_ == nullptr ? "" : name_->Problem();
    if (!why.empty()) way_->nameless = true;
    if (why.empty()) why = probe_->Problem();
    if (why.empty()) {
      const std::string found = way_->check.problem();
      why = absl::StrCat("no connection within ", deadline_ms_, " ms", found.empty() ? "" : ": ",
                         found);
    }
    return absl::StrContains(why, address_) ? why : at + why;
  }

  const std::shared_ptr<Way> way_;
  const std::shared_ptr<NameLookup> name_;
  const std::shared_ptr<DialProbe> probe_;
  Calls& calls_;
  Parts request_;
  const int64_t deadline_ms_;
  const std::string address_;
  const absl::Status refused_;  // why the call must not go out
  ReplyFn done_;
  grpc::ClientContext context_;
  std::optional<grpc::Alarm> doubt_;  // asks whether the name resolves, after kDoubtMs
  grpc::ByteBuffer sent_;
  grpc::ByteBuffer received_;
  absl::Cord reply_;
  size_t next_part_ = 0;
};

class GrpcLink : public Link {
 public:
  GrpcLink(const std::string& address, const GrpcOptions& options)
      : address_(address),
        arguments_(Arguments(options)),
        credentials_(options.credentials),
        refused_(options.credentials != nullptr || options.insecure || StaysHere(address)
                     ? absl::OkStatus()
                     : PlainTextOut(address)),
        name_(HasName(address) ? std::make_shared<NameLookup>(address) : nullptr),
        probe_(std::make_shared<DialProbe>(address, options.credentials)) {}

  ~GrpcLink() override { calls_.CancelAndWait(); }

  void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) override {
    new ClientCall(TheWay(method), name_, probe_, calls_, method, std::move(request), deadline_ms,
                   address_, refused_, std::move(done));
  }

  const std::string& address() const override { return address_; }

 private:
  // Returns the channel for new calls. gRPC retries an unresolved name ever less often, at last
  // every 2 minutes; a fresh channel resolves at once. A fresh channel also picks up changed keys;
  // calls in flight stay on the old channel. The peer must have the role that serves the method.
  std::shared_ptr<Way> TheWay(std::string_view method) {
    PeerCheck check(credentials_, address_, ServerOf(method));
    MutexLock lock(mu_);
    if (way_ == nullptr || !way_->check.SameAs(check) ||
        (way_->nameless && name_->Problem().empty() && !way_->connected())) {
      way_ =
          std::make_shared<Way>(refused_.ok() ? address_ : kNowhere, arguments_, std::move(check));
    }
    return way_;
  }

  static grpc::ChannelArguments Arguments(const GrpcOptions& options) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
    arguments.SetMaxSendMessageSize(static_cast<int>(options.message_bytes_max));
    const auto set = [&](const char* name, int value) { arguments.SetInt(name, value); };
    SetWindows(set);
    RefuseCompressed(set);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 200);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    // A peer whose name moves to another address is looked up soon, not after 30 s.
    arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
    // A peer silent for 15 s while a call waits counts as gone.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
    // Our roles retry calls themselves; pushes carry identities.
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    // Every link gets a connection of its own instead of sharing with other links of this process.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    // Peers are verified by role, not by host name.
    if (options.credentials != nullptr) arguments.SetSslTargetNameOverride("paracord");
    return arguments;
  }

  const std::string address_;
  const grpc::ChannelArguments arguments_;
  const std::shared_ptr<Credentials> credentials_;  // nullptr: plain text
  const absl::Status refused_;                      // why no call may go out
  const std::shared_ptr<NameLookup> name_;          // nullptr if the address has no name
  const std::shared_ptr<DialProbe> probe_;
  Mutex mu_;
  std::shared_ptr<Way> way_ ABSL_GUARDED_BY(mu_);  // nullptr before the first call
  Calls calls_;
};

}  // namespace

// Debian's gRPC may abort or double-free while the last channel or server of a process tears down
// the completion queue of all callbacks (a gRPC thread may drop the last reference and then join
// itself). A used link that is never destroyed keeps the queue alive.
GrpcNetwork::GrpcNetwork(GrpcOptions options)
    : options_(options),
      requests_(std::make_shared<RequestBudget>(
          options.requests != nullptr ? options.requests
                                      : std::make_shared<MemoryShare>(options.requests_bytes_max),
          kSmallBytes)) {
  static Link* const kept = [&] {
    // Uses the system's resolver, like other programs on this machine. gRPC's own resolver asks
    // name servers for IPv6 addresses of names found in /etc/hosts, and waits for the answer.
    setenv("GRPC_DNS_RESOLVER", "native", /*overwrite=*/0);
#if defined(__SANITIZE_ADDRESS__)
    const __lsan::ScopedDisabler not_a_leak;
#endif
    GrpcOptions plain = options;
    plain.credentials = nullptr;
    Link* const link = new GrpcLink(kNowhere, plain);
    link->Call("/paracord.Keep/Queue", {}, 1, [](const absl::StatusOr<absl::Cord>&) {});
    return link;
  }();
  (void)kept;
}

std::unique_ptr<Link> GrpcNetwork::Dial(const std::string& address) {
  return std::make_unique<GrpcLink>(address, options_);
}

std::unique_ptr<Link> GrpcNetwork::DialBoot(const std::string& address, const std::string&) {
  // The link beneath says why no plain text may go there.
  if (options_.credentials == nullptr && !options_.insecure && !StaysHere(address)) {
    return Dial(address);
  }
  return MakeStreamLink(Dial(address), options_.credentials);
}

}  // namespace paracord
