// The serving side.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "net/grpc_convert.h"
#include "net/grpc_network.h"
#include "net/intake.h"

namespace paracord {
namespace {

// One call as it arrived. gRPC and our ServerCall each hold it; the last one out deletes it.
class ServerReactor : public grpc::ServerGenericBidiReactor {
 public:
  ServerReactor(grpc::GenericCallbackServerContext* context, Service& service,
                uint64_t request_bytes_max, std::shared_ptr<Intake> intake)
      : method_(context->method()),
        service_(service),
        request_bytes_max_(request_bytes_max),
        intake_(std::move(intake)),
        number_(intake_->Begin()) {
    StartRead(&received_);
  }

  void Reply(absl::StatusOr<Parts> reply) {
    std::function<void()> forget;
    {
      MutexLock lock(mu_);
      if (replied_) return;
      replied_ = true;
      forget = std::exchange(on_cancel_, nullptr);
    }
    if (!reply.ok()) return Finish(ToGrpc(reply.status()));
    reply_ = *std::move(reply);
    if (reply_.empty()) reply_.emplace_back();
    WriteNext();
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

  void OnWriteDone(bool ok) override {
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
    intake_->End(number_);
    Release();
  }

  void Resume() {
    {
      MutexLock lock(mu_);
      if (replied_) return;
    }
    StartRead(&received_);
  }

  void WriteNext() {
    sent_ = ToByteBuffer(reply_[next_part_]);
    reply_[next_part_].Clear();
    ++next_part_;
    StartWrite(&sent_);
  }

  const std::string method_;
  Service& service_;
  const uint64_t request_bytes_max_;
  const std::shared_ptr<Intake> intake_;
  const uint64_t number_;  // of the intake
  std::atomic<int> holders_{1};
  // Used by one gRPC callback at a time.
  grpc::ByteBuffer received_;
  absl::Cord request_;
  grpc::ByteBuffer sent_;
  Parts reply_;
  size_t next_part_ = 0;

  Mutex mu_;
  bool replied_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mu_);

  friend class GrpcServerCall;
};

class GrpcServerCall : public ServerCall {
 public:
  // Without `answers` it only keeps the reactor.
  explicit GrpcServerCall(ServerReactor& reactor, bool answers = true)
      : reactor_(reactor), answers_(answers) {
    ++reactor_.holders_;
  }
  ~GrpcServerCall() override {
    if (answers_) reactor_.Reply(absl::CancelledError("dropped without an answer"));
    reactor_.Release();
  }
  void Reply(absl::StatusOr<Parts> reply) override { reactor_.Reply(std::move(reply)); }
  void OnCancel(std::function<void()> fn) override { reactor_.OnCancelled(std::move(fn)); }

 private:
  ServerReactor& reactor_;
  const bool answers_;
};

void ServerReactor::OnReadDone(bool ok) {
  if (!ok) {  // the request is whole, or its caller is gone
    intake_->Arrived(number_);
    {
      MutexLock lock(mu_);
      if (cancelled_) return;
    }
    auto call = std::make_shared<GrpcServerCall>(*this);
    service_.Handle(method_, std::move(request_), std::move(call));
    return;
  }
  const uint64_t before = request_.size();
  request_.Append(ToCord(received_));
  received_.Clear();
  if (request_.size() > request_bytes_max_) {
    return Reply(absl::ResourceExhaustedError(
        absl::StrCat("request of more than ", request_bytes_max_, " bytes")));
  }
  // Held, because the call may end while it waits.
  auto held = std::make_shared<GrpcServerCall>(*this, /*answers=*/false);
  if (intake_->Take(number_, request_.size() - before, [this, held] { Resume(); })) {
    StartRead(&received_);
  }
}

class GenericDoor : public grpc::CallbackGenericService {
 public:
  GenericDoor(Service& service, const GrpcOptions& options)
      : service_(service),
        request_bytes_max_(options.request_bytes_max),
        intake_(std::make_shared<Intake>(options.requests_bytes_max)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new ServerReactor(context, service_, request_bytes_max_, intake_);
  }

 private:
  Service& service_;
  const uint64_t request_bytes_max_;
  const std::shared_ptr<Intake> intake_;  // shared with calls, which may outlive the door
};

class GrpcListener : public Listener {
 public:
  GrpcListener(std::unique_ptr<GenericDoor> door, std::unique_ptr<grpc::Server> server,
               std::string address)
      : door_(std::move(door)), server_(std::move(server)), address_(std::move(address)) {}
  ~GrpcListener() override {
    // Parked calls are cancelled; a reply on its way gets a moment.
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    server_->Wait();
  }
  std::string address() const override { return address_; }

 private:
  const std::unique_ptr<GenericDoor> door_;
  const std::unique_ptr<grpc::Server> server_;
  const std::string address_;
};

// gRPC takes a socket's path from whoever listens there; a live listener must win.
bool SomebodyListens(const std::string& path) {
  sockaddr_un address{};
  if (path.size() >= sizeof(address.sun_path)) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool live =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(fd);
  return live;
}

absl::Status CannotListen(const std::string& address, int error) {
  const std::string text =
      absl::StrCat("cannot listen at ", address, ": ", std::string(std::strerror(error)));
  if (error == EADDRINUSE) return absl::AlreadyExistsError(text);
  return absl::InvalidArgumentError(
      error == EADDRNOTAVAIL ? text + " (no network interface of this machine has it)" : text);
}

// gRPC prints what is wrong with an address and tells us only that something is: tried beforehand.
absl::Status TrySocket(const std::string& address, const std::string& path) {
  if (SomebodyListens(path)) {
    return absl::AlreadyExistsError(absl::StrCat("somebody listens at ", address));
  }
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (::access((directory + "/.").c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  const int error = errno;
  return absl::InvalidArgumentError(absl::StrCat("cannot listen at ", address, ": directory ",
                                                 directory, ": ",
                                                 std::string(std::strerror(error))));
}

absl::Status TryPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (failed != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen at ", address, ": ", std::string(::gai_strerror(failed))));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int fd = ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;  // of a family that this machine does not speak
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const bool bound = ::bind(fd, one->ai_addr, one->ai_addrlen) == 0;
    if (!bound) error = errno;
    ::close(fd);
    if (bound) return absl::OkStatus();
  }
  return error == 0 ? absl::OkStatus() : CannotListen(address, error);
}

void SetArguments(grpc::ServerBuilder& builder, const GrpcOptions& options) {
  // Otherwise two servers share one port, and both report success.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument("grpc.server_handshake_timeout_ms", 5000);
  // Otherwise it takes the link's keepalive for an attack.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  SetWindows([&](const char* name, int value) { builder.AddChannelArgument(name, value); });
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
  builder.SetMaxSendMessageSize(static_cast<int>(options.message_bytes_max));
  grpc::ResourceQuota quota("paracord");
  quota.Resize(options.quota_bytes);
  builder.SetResourceQuota(quota);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> GrpcNetwork::Listen(const std::string& address,
                                                              Service& service) {
  const bool is_unix = address.starts_with("unix:");
  const std::string path = is_unix ? address.substr(5) : "";
  if (is_unix && path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket path is too long (107 bytes at most): ", address));
  }
  RETURN_IF_ERROR(is_unix ? TrySocket(address, path) : TryPort(address));
  auto door = std::make_unique<GenericDoor>(service, options_);
  grpc::ServerBuilder builder;
  SetArguments(builder, options_);
  int port = -1;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(door.get());
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || (port <= 0 && !is_unix)) {
    return absl::AlreadyExistsError(
        absl::StrCat("cannot listen at ", address, ": the address is in use"));
  }
  std::string bound = address;
  if (!is_unix) bound = absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
  return std::make_unique<GrpcListener>(std::move(door), std::move(server), std::move(bound));
}

}  // namespace paracord
