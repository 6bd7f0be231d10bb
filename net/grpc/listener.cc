// The serving side.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "net/arriving_requests.h"
#include "net/frame_relay.h"
#include "net/grpc/convert.h"
#include "net/grpc/network.h"
#include "net/port_multiplexer.h"
#include "net/request_budget.h"

namespace paracord {
namespace {

// The relay's name for a call's connection.
std::string ConnectionOf(const grpc::GenericCallbackServerContext& context) {
  const std::string peer = context.peer();
  return peer.substr(peer.find(':') + 1);
}

// Returns the caller's metadata under a key; "" if absent.
std::string Metadata(const grpc::GenericCallbackServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  const bool said = found != context.client_metadata().end();
  return said ? std::string(found->second.data(), found->second.size()) : "";
}

// A call as it arrived. gRPC and our ServerCall both hold the reactor; the last holder deletes it.
class ServerReactor : public grpc::ServerGenericBidiReactor {
 public:
  // Reads nothing if the peer may not make the call, for which `refused` is the error.
  ServerReactor(grpc::GenericCallbackServerContext* context, Service& service,
                const GrpcOptions& options, std::shared_ptr<RequestBudget> request_budget,
                std::shared_ptr<RelayedPeers> peers, std::string task, const absl::Status& refused)
      : method_(context->method()),
        connection_(ConnectionOf(*context)),
        declared_bytes_(Metadata(*context, kBytesKey)),
        service_(service),
        request_bytes_max_(options.request_bytes_max),
        requests_(std::move(request_budget)),
        peers_(std::move(peers)),
        task_(std::move(task)) {
    replied_ = !refused.ok();
    if (refused.ok()) {
      StartRead(&received_);
    } else {
      Finish(ToGrpc(refused));
    }
  }

  void Reply(absl::StatusOr<Parts> reply) {
    std::function<void()> forget;
    {
      MutexLock lock(mu_);
      if (replied_) return;
      replied_ = true;
      forget = std::exchange(on_cancel_, nullptr);
      if (streams_) {
        late_reply_ = std::move(reply);
        return;
      }
    }
    Send(std::move(reply));
  }

  void Stream(absl::Cord message) {
    {
      MutexLock lock(mu_);
      if (replied_) return;
      if (streams_) {
        next_message_ = std::move(message);
        return;
      }
      streams_ = true;
    }
    WriteMessage(message);
  }

  void OnCancelled(std::function<void()> fn) {
    {
      MutexLock lock(mu_);
      if (replied_) return;
      if (!cancelled_) {
        on_cancel_ = std::move(fn);
        return;
      }
    }
    fn();
  }

  void Release() {
    if (holders_.fetch_sub(1) == 1) delete this;
  }

 private:
  void OnReadDone(bool ok) override;

  // Whether the request is whole. gRPC reports the end of reading alike for a whole and a cut
  // request, and reports the cancellation of a cut one only later.
  bool Complete() const {
    if (!declared_bytes_.empty()) return declared_bytes_ == absl::StrCat(request_.size());
    return !peers_->Ended(connection_);
  }

  void OnWriteDone(bool ok) override {
    if (Streamed(ok)) return;
    if (ok && next_part_ < reply_.size()) return WriteNext();
    Finish(ok ? grpc::Status::OK : grpc::Status(grpc::StatusCode::CANCELLED, "caller is gone"));
  }

  void OnCancel() override {
    std::function<void()> fn;
    {
      MutexLock lock(mu_);
      cancelled_ = true;
      fn = std::exchange(on_cancel_, nullptr);
    }
    if (fn) fn();
    Reply(absl::CancelledError("caller is gone"));
  }

  void OnDone() override {
    if (number_ != 0) requests_->End(number_);
    Release();
  }

  // Whether the finished write belonged to Stream; if so, continues with the waiting part or reply.
  bool Streamed(bool ok) {
    std::optional<absl::StatusOr<Parts>> reply;
    std::optional<absl::Cord> message;
    {
      MutexLock lock(mu_);
      if (!streams_) return false;
      if (ok && !late_reply_.has_value()) message.swap(next_message_);
      streams_ = message.has_value();
      if (!streams_) reply.swap(late_reply_);
    }
    if (message.has_value()) WriteMessage(*message);
    if (reply.has_value()) Send(*std::move(reply));
    return true;
  }

  void WriteMessage(const absl::Cord& message) {
    sent_ = ToByteBuffer(message);
    StartWrite(&sent_);
  }

  void Send(absl::StatusOr<Parts> reply) {
    if (!reply.ok()) return Finish(ToGrpc(reply.status()));
    reply_ = CutParts(*std::move(reply));
    WriteNext();
  }

  void WriteNext() {
    sent_ = ToByteBuffer(reply_[next_part_]);
    reply_[next_part_].Clear();
    ++next_part_;
    StartWrite(&sent_);
  }

  const std::string method_;
  const std::string connection_;      // its name at the relay
  const std::string declared_bytes_;  // size of the request, if the sender declared it
  Service& service_;
  const uint64_t request_bytes_max_;
  const std::shared_ptr<RequestBudget> requests_;
  const std::shared_ptr<RelayedPeers> peers_;
  const std::string task_;  // the caller's task
  std::atomic<int> holders_{1};
  // Used by a single gRPC callback at a time.
  uint64_t number_ = 0;  // the request budget's number, once the request is complete
  grpc::ByteBuffer received_;
  absl::Cord request_;
  grpc::ByteBuffer sent_;
  Parts reply_;
  size_t next_part_ = 0;

  Mutex mu_;
  bool replied_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mu_);
  bool streams_ ABSL_GUARDED_BY(mu_) = false;  // a write of Stream has not ended
  std::optional<absl::Cord> next_message_ ABSL_GUARDED_BY(mu_);
  // A reply that waits for the stream's write to end.
  std::optional<absl::StatusOr<Parts>> late_reply_ ABSL_GUARDED_BY(mu_);

  friend class GrpcServerCall;
};

class GrpcServerCall : public ServerCall {
 public:
  // With `answers` false, only keeps the reactor alive.
  explicit GrpcServerCall(ServerReactor& reactor, bool answers = true)
      : reactor_(reactor), answers_(answers) {
    ++reactor_.holders_;
  }
  ~GrpcServerCall() override {
    if (answers_) reactor_.Reply(absl::CancelledError("dropped without an answer"));
    reactor_.Release();
  }
  void Reply(absl::StatusOr<Parts> reply) override { reactor_.Reply(std::move(reply)); }
  void ReleaseRequest() override {
    reactor_.requests_->Keep(reactor_.number_, ArrivingRequests::kCallBytes);
  }
  bool Stream(absl::Cord message) override {
    reactor_.Stream(std::move(message));
    return true;
  }
  void OnCancel(std::function<void()> fn) override { reactor_.OnCancelled(std::move(fn)); }
  std::string_view caller() const override { return reactor_.task_; }

 private:
  ServerReactor& reactor_;
  const bool answers_;
};

void ServerReactor::OnReadDone(bool ok) {
  if (!ok) {  // the request is whole, or its caller is gone
    {
      MutexLock lock(mu_);
      if (cancelled_ || replied_) return;
    }
    if (!Complete()) return Reply(absl::CancelledError("the request was cut"));
    number_ = requests_->Hold(request_.size() + ArrivingRequests::kCallBytes);
    auto call = std::make_shared<GrpcServerCall>(*this);
    service_.Handle(method_, std::move(request_), std::move(call));
    return;
  }
  request_.Append(ToCord(received_));
  received_.Clear();
  const uint64_t bytes_max = std::min(request_bytes_max_, requests_->request_bytes_max());
  if (request_.size() > bytes_max) {
    return Reply(RequestTooLarge(bytes_max));
  }
  StartRead(&received_);
}

class GenericService : public grpc::CallbackGenericService {
 public:
  GenericService(Service& service, const GrpcOptions& options,
                 std::shared_ptr<RequestBudget> request_budget, std::shared_ptr<RelayedPeers> peers)
      : service_(service),
        options_(options),
        requests_(std::move(request_budget)),
        peers_(std::move(peers)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const absl::StatusOr<Access> access = AccessOf(*context);
    const absl::Status refused = access.ok() ? access->Check(context->method()) : access.status();
    if (!refused.ok()) Note(ConnectionOf(*context), refused);
    return new ServerReactor(context, service_, options_, requests_, peers_,
                             access.ok() ? access->task() : "", refused);
  }

 private:
  absl::StatusOr<Access> AccessOf(const grpc::GenericCallbackServerContext& context) const {
    if (options_.credentials == nullptr) return Access();
    const std::string name = ConnectionOf(context);
    const std::optional<RelayedPeer> found = peers_->Find(name);
    if (!found.has_value()) return absl::UnauthenticatedError("the connection has ended");
    if (!found->needs_token) return found->access;
    const std::string text = Metadata(context, kTokenKey);
    if (text.starts_with(kTokenPrefix) &&
        options_.credentials->IsToken(text.substr(std::string_view(kTokenPrefix).size()))) {
      if (!found->is_known) peers_->Know(name);
      return Access();
    }
    return absl::UnauthenticatedError(
        "a caller needs a certificate of the cluster (--tls-cert), or its token (--token-file)");
  }

  // Counts and logs the first refused call of a connection.
  void Note(const std::string& connection, const absl::Status& refused) const {
    const std::optional<RelayedPeer> peer = peers_->FirstRefusal(connection);
    if (!peer.has_value()) return;
    options_.refused->Note({.cause = RefusedPeers::Cause::kRight,
                            .address = peer->address,
                            .certificate = peer->certificate.Name(),
                            .why = std::string(refused.message())});
  }

  Service& service_;
  const GrpcOptions options_;
  // Shared with calls, which may outlive the server.
  const std::shared_ptr<RequestBudget> requests_;
  const std::shared_ptr<RelayedPeers> peers_;
};

class GrpcListener : public Listener {
 public:
  GrpcListener(std::unique_ptr<GenericService> generic, std::unique_ptr<grpc::Server> server,
               std::unique_ptr<FrameRelay> relay, std::unique_ptr<PortMultiplexer> multiplexer)
      : generic_(std::move(generic)),
        server_(std::move(server)),
        relay_(std::move(relay)),
        multiplexer_(std::move(multiplexer)),
        address_(multiplexer_->address()),
        own_address_(multiplexer_->own_address()) {}
  ~GrpcListener() override {
    multiplexer_ = nullptr;
    // Parked calls are cancelled; a reply on its way gets a moment.
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    server_->Wait();
    relay_ = nullptr;  // after the last answers
  }
  std::string address() const override { return address_; }
  std::string own_address() const override { return own_address_; }

 private:
  const std::unique_ptr<GenericService> generic_;
  const std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<FrameRelay> relay_;
  std::unique_ptr<PortMultiplexer> multiplexer_;
  const std::string address_;
  const std::string own_address_;
};

// Open calls of a connection, each with up to a message of memory. Our clients have at most five
// long calls open; further calls wait in the client.
constexpr int kCallsAtOnce = 8;

void SetArguments(grpc::ServerBuilder& builder, const GrpcOptions& options) {
  builder.AddChannelArgument("grpc.server_handshake_timeout_ms", 5000);
  // The relay bounds pings. gRPC would end a connection with too many once it has written what it
  // has to write, and keep an error for each ping until then: for ever, if the peer reads nothing.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  const auto set = [&](const char* name, int value) { builder.AddChannelArgument(name, value); };
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsAtOnce);
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, static_cast<int>(options.idle_ms));
  SetWindows(set);
  // gRPC's memory for a connection, not counted by the request budget.
  constexpr uint64_t kAmple = uint64_t{256} << 20;
  if (options.requests != nullptr && options.requests->bytes_max() < kAmple) {
    set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 256 << 10);
    set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 256 << 10);
  }
  RefuseCompressed(set);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
  builder.SetMaxSendMessageSize(static_cast<int>(options.message_bytes_max));
  // No gRPC resource quota: above the quota, gRPC 1.51 crashes when a thread of ours releases a
  // request. The request budget bounds requests anyway.
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> GrpcNetwork::Listen(const std::string& address,
                                                              Service& service) {
  ASSIGN_OR_RETURN(std::unique_ptr<PortMultiplexer> multiplexer, PortMultiplexer::Listen(address));
  const std::shared_ptr<Credentials>& credentials = options_.credentials;
  if (credentials == nullptr && !options_.insecure && multiplexer->reaches_out()) {
    return absl::InvalidArgumentError(
        absl::StrCat("other machines reach ", address,
                     ", and there plain text lets in everybody: give --tls-cert, --tls-key and "
                     "--tls-ca, or listen at 127.0.0.1, or give --insecure"));
  }
  auto relay =
      std::make_unique<FrameRelay>(FrameRelayOptions{.credentials = credentials,
                                                     .request_budget = requests_,
                                                     .patience_ms = options_.request_patience_ms,
                                                     .refused = options_.refused});
  auto generic = std::make_unique<GenericService>(service, options_, requests_, relay->peers());
  grpc::ServerBuilder builder;
  SetArguments(builder, options_);
  using Builder = grpc::ServerBuilder::experimental_type;
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(Builder::ExternalConnectionType::FROM_FD,
                                                           grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(generic.get());
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen at ", address, ": gRPC fails"));
  }
  const auto deliver = [acceptor](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    acceptor->HandleNewConnection(&connection);
  };
  multiplexer->Open(
      {&service, requests_, options_.request_bytes_max},
      [deliver, &to = *relay](int fd) { to.Add(fd, deliver); }, credentials, options_.refused);
  return std::make_unique<GrpcListener>(std::move(generic), std::move(server), std::move(relay),
                                        std::move(multiplexer));
}

}  // namespace paracord
